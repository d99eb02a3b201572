"""What a call to a model is made for: part of its record, never of its identity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

Task = Literal["answers", "understanding", "enrich", "date_by", "judging", "metrics", "questions"]


@dataclass(frozen=True)
class Purpose:
    """What a call is made for, recorded when it is paid. ``cell``: key of what is built by it."""

    task: Task
    study: str | None = None
    cell: str | None = None
    question: str | None = None

    def of(self, question: str | None) -> Self:
        return replace(self, question=question)

"""What a call to a model is made for: part of its record, never of its identity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

Task = Literal["answers", "understanding", "enrich", "date_by", "judging", "metrics", "questions"]


@dataclass(frozen=True)
class Purpose:
    """What a call is made for. The record of a call has the purpose for which it was paid; who finds it in
    the cache later pays nothing, and changes nothing of it.

    task: what the call does
    study: None for what is built for any study: enrichments, dates
    cell: key of what is built by it: of a cell, a ranking, the chunks of a corpus, a source
    question: id of the question; None where it is of none, or of no question set
    """

    task: Task
    study: str | None = None
    cell: str | None = None
    question: str | None = None

    def of(self, question: str | None) -> Self:
        """Return the purpose for one question.

        >>> Purpose("answers", "energy").of("q7").question
        'q7'
        """
        return replace(self, question=question)

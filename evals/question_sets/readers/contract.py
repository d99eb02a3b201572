"""What a reader of questions takes in, and how it tells its mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]


@dataclass(frozen=True)
class SetFile:
    """A file of questions, and what the study says of it.

    name: of the question set
    language: of its questions, where they do not say it; None: not known
    asked_at: the day on which they are asked, where they do not say it
    judged_alone: whether they may have neither ground truth nor evidence, since people judge the answers
    """

    path: Path
    name: str
    language: str | None = None
    asked_at: str | None = None
    judged_alone: bool = False


class QuestionRecord(NamedTuple):
    """A question as a file has it, before it is checked.

    place: the line, row or item, as it is told in `FILE:PLACE: …`
    cells: by the names of `evals.question_sets.readers.records`; what is empty is absent
    unreadable: why it cannot be used at all; None: it can be looked at
    """

    place: str
    cells: Mapping[str, Any]
    unreadable: str | None = None


Records = Iterator[QuestionRecord]

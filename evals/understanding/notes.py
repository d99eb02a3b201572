"""What a step has to say of a question: why a filter was dropped, why a model's output was not used."""

from __future__ import annotations

from typing import NamedTuple

from evals.retrieving.contract import Query

NOTES = "understanding notes"
LONGEST = 400  # characters of a question or reason that are kept


class Note(NamedTuple):
    """One remark on one question.

    kind: the step's name
    question: as it was asked, cut at 400 characters
    status: relaxed | empty | not_a_date | unknown, or the `schemas.Status` of a model's call
    reason: one sentence
    """

    kind: str
    question: str
    status: str
    reason: str


def note(query: Query, kind: str, status: str, reason: str) -> None:
    """Keep a remark with the run's kit; the same remark is kept once."""
    kept: list[Note] = query.kit.once(NOTES, list)
    remark = Note(kind, query.text[:LONGEST], str(status), reason[:LONGEST])
    if remark not in kept:
        kept.append(remark)


def notes(query: Query) -> list[Note]:
    """Return the remarks of this run, oldest first."""
    return list(query.kit.made.get(NOTES, ()))

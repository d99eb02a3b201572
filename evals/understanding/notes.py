"""What a step has to say of a question: why a filter was dropped, why a model's output was not used."""

from __future__ import annotations

from typing import NamedTuple

from evals.retrieving.contract import Query

LONGEST = 400  # characters of a question or reason that are kept
LONGEST_RAW = 4_000  # … of what a model said


class Note(NamedTuple):
    """One remark on one question.

    kind: the step's name
    question: as it was asked, cut at 400 characters
    status: relaxed | empty | not_a_date | unknown, or the `schemas.Status` of a model's call
    reason: one sentence
    raw: what a model said that could not be used, cut at 4,000 characters; all of it is in the cache of calls
    """

    kind: str
    question: str
    status: str
    reason: str
    raw: str | None = None


def note(query: Query, kind: str, status: str, reason: str, raw: str | None = None) -> None:
    """Keep a remark with the question's context; the same remark is kept once."""
    said = raw[:LONGEST_RAW] if raw else None
    query.context.notes.setdefault(Note(kind, query.text[:LONGEST], str(status), reason[:LONGEST], said))


def notes(query: Query) -> list[Note]:
    """Return the notes of the context, oldest first."""
    return list(query.context.notes)

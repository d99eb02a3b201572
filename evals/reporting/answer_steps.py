"""How an answer came about: looks for passages, bins that were asked, turns that were left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_assay.evals.generation.contract import Answer, Attempt, Bin
from rag_assay.evals.reporting.display import several
from rag_assay.warehouse.schemas import Status


@dataclass(frozen=True)
class AnswerSteps:
    """What was done for an answer beside asking once; empty for most."""

    attempts: tuple[Attempt, ...] = ()
    bins: tuple[Bin, ...] = ()
    turns_left_out: int = 0

    @property
    def summary(self) -> str:
        """What there is, in a line; empty where there is nothing.

        >>> AnswerSteps(bins=(Bin("", (), Status.OK),) * 2, turns_left_out=1).summary
        '2 bins · 1 turn of the conversation left out'
        """
        turns = f"{several(self.turns_left_out, 'turn')} of the conversation left out"
        told = [
            several(len(self.attempts), "look") + " for passages" if self.attempts else "",
            several(len(self.bins), "bin") if self.bins else "",
            turns if self.turns_left_out else "",
        ]
        return " · ".join(filter(None, told))


def steps_of(row: Mapping[str, Any]) -> AnswerSteps:
    """Return the steps of a row of `schemas.ANSWERS`; those of an earlier version have none."""
    return AnswerSteps(
        tuple(
            Attempt(one["query"], tuple(one["chunk_ids"]), one["sufficient"], one["reason"])
            for one in row.get("attempts") or ()
        ),
        tuple(
            Bin(one["text"], tuple(one["chunk_ids"]), Status(one["status"]), one["reason"], one["answer"])
            for one in row.get("bins") or ()
        ),
        row.get("turns_left_out") or 0,
    )


def steps_of_answer(answer: Answer) -> AnswerSteps:
    """Return the steps of an answer that is not stored."""
    return AnswerSteps(answer.attempts, answer.bins, answer.turns_left_out)


def verdict_words(attempt: Attempt) -> str:
    """Say whether what was found suffices.

    >>> verdict_words(Attempt("Who?", ("c1",), False, "missing: the year"))
    '1 passage: does not suffice (missing: the year)'
    """
    words = {True: "suffices", False: "does not suffice", None: "not checked"}[attempt.sufficient]
    reason = f" ({attempt.reason})" if attempt.reason else ""
    return f"{several(len(attempt.chunks), 'passage')}: {words}{reason}"

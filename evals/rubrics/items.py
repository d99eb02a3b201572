"""Items: what an annotator is shown and scores. Equal contents are one item, in whatever cells they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.warehouse.identity import digest


@dataclass(frozen=True)
class Item:
    """A question with an answer and the passages that it was made of, blind to where they are from.

    case: what is shown, as judges read it, but for the markers of citations, which stay in the answer; they
        are the numbers of the passages
    evidence: texts of the question's evidence
    marks: (passage from 0, start, end) in characters of its text, where evidence stands in the passages
    conversation: what was said before the question, oldest first, question and answer by turns
    asked_at: ISO 8601 date on which the question is asked; None: any day
    """

    case: JudgeCase
    evidence: tuple[str, ...] = ()
    marks: tuple[tuple[int, int, int], ...] = ()
    conversation: tuple[str, ...] = ()
    asked_at: str | None = None

    @cached_property
    def item_id(self) -> str:
        """Digest of what is shown."""
        case, texts = self.case, [one.text for one in self.case.passages]
        return item_id(
            case.question, case.answer, texts, case.rival, setting=(*self.conversation, self.asked_at)
        )


def item_id(
    question: str,
    answer: str | None,
    passages: list[str],
    rival: str | None = None,
    *,
    setting: Sequence[str | None] = (),
) -> str:
    """Return the id of an item: a digest of question, answer, texts of the passages in order, and the rival.

    The ground truth is no part of it: it may be mended, and the scores stay.

    setting: what the question does not say by itself: the conversation before it, and its day

    >>> item_id("Why?", "So.", ["a"]) == item_id("Why?", "So.", ["a"]), item_id("Why?", "So.", [])[:4]
    (True, 'e18e')
    """
    said = [one for one in setting if one]
    return digest(["item", question, answer, passages, rival, *([said] if said else [])])

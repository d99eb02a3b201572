"""Items: what an annotator is shown and scores. Equal contents are one item, in whatever cells they stand."""

from __future__ import annotations

from dataclasses import dataclass

from evals.generating.contract import Passage
from evals.judging.contract import JudgeCase
from warehouse.identity import digest


@dataclass(frozen=True)
class Item:
    """A question with an answer and the passages that it was made of, blind to where they are from.

    case: what is shown, as judges read it
    evidence: texts of the question's evidence, which are marked where they stand in the passages
    """

    case: JudgeCase
    evidence: tuple[str, ...] = ()

    @property
    def item_id(self) -> str:
        """Digest of what is shown."""
        case = self.case
        return item_id(case.question, case.answer, [one.text for one in case.passages], case.rival)


def item_id(question: str, answer: str | None, passages: list[str], rival: str | None = None) -> str:
    """Return the id of an item: a digest of question, answer, texts of the passages in order, and the rival.

    >>> item_id("Why?", "So.", ["a"]) == item_id("Why?", "So.", ["a"]), item_id("Why?", "So.", [])[:4]
    (True, 'e18e')
    """
    return digest(["item", question, answer, passages, rival])


def imported_case(
    question: str, answer: str | None, ground_truth: str | None, contexts: list[str]
) -> JudgeCase:
    """Return the case of a row of a sheet, whose passages are texts alone."""
    passages = tuple(Passage(text, chunk=f"context {n}") for n, text in enumerate(contexts, 1))
    return JudgeCase(question, answer=answer, ground_truth=ground_truth, passages=passages)

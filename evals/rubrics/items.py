"""Items: what an annotator is shown and scores. Equal contents are one item, in whatever cells they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.warehouse.identity import Json, digest
from rag_assay.warehouse.schemas import Status


@dataclass(frozen=True)
class Item:
    """A question with an answer and its passages, blind to where they are from.

    case: as judges read it; markers of citations stay in the answer
    marks: (passage from 0, start, end) of the evidence
    conversation: oldest first, question and answer by turns
    asked_at: ISO 8601 date; None: any day
    """

    case: JudgeCase
    evidence: tuple[str, ...] = ()
    marks: tuple[tuple[int, int, int], ...] = ()
    conversation: tuple[str, ...] = ()
    asked_at: str | None = None

    @cached_property
    def item_id(self) -> str:
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

    The ground truth is no part of it: it may be edited, and the scores stay.

    >>> item_id("Why?", "So.", ["a"]) == item_id("Why?", "So.", ["a"]), item_id("Why?", "So.", [])[:4]
    (True, 'e18e')
    """
    said = [one for one in setting if one]
    return digest(["item", question, answer, passages, rival, *([said] if said else [])])


_OF_CASE = ("question", "question_id", "language", "answer", "status", "ground_truth", "rival")
_OF_PASSAGE = ("text", "title", "url", "date", "section", "number")


def written_item(item: Item) -> dict[str, Json]:
    case = item.case
    return {
        **{name: getattr(case, name) for name in _OF_CASE},
        "status": str(case.status),
        "passages": [_written_passage(one) for one in case.passages],
        "evidence": list(item.evidence),
        "marks": [list(one) for one in item.marks],
        "conversation": list(item.conversation),
        "asked_at": item.asked_at,
    }


def read_item(written: Mapping[str, Any]) -> Item:
    passages = tuple(_read_passage(one) for one in written["passages"])
    of_case = {name: written[name] for name in _OF_CASE} | {"status": Status(written["status"])}
    case = JudgeCase(**of_case, passages=passages)
    marks = tuple((passage, start, end) for passage, start, end in written["marks"])
    conversation = tuple(written["conversation"])
    return Item(case, tuple(written["evidence"]), marks, conversation, written["asked_at"])


def blind(item: Item) -> Item:
    return read_item(written_item(item))


def _written_passage(passage: Passage) -> dict[str, Json]:
    return {**{name: getattr(passage, name) for name in _OF_PASSAGE}, "section": list(passage.section)}


def _read_passage(written: Mapping[str, Any]) -> Passage:
    return Passage(**{**{name: written[name] for name in _OF_PASSAGE}, "section": tuple(written["section"])})

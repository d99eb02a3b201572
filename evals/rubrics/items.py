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
    """A question with an answer and its passages, blind to where they are from; case: as judges read it.

    marks: (passage from 0, start, end) of the evidence; conversation: oldest first, question and answer by
        turns
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
        setting = (*self.conversation, self.asked_at)
        return item_id(case.question, case.answer, texts, case.rival, setting=setting)


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
        "passages": [
            {**{name: getattr(one, name) for name in _OF_PASSAGE}, "section": list(one.section)}
            for one in case.passages
        ],
        "evidence": list(item.evidence),
        "marks": [list(one) for one in item.marks],
        "conversation": list(item.conversation),
        "asked_at": item.asked_at,
    }


def read_item(written: Mapping[str, Any]) -> Item:
    texts = ({name: one[name] for name in _OF_PASSAGE} for one in written["passages"])
    passages = tuple(Passage(**{**one, "section": tuple(one["section"])}) for one in texts)
    of_case = {name: written[name] for name in _OF_CASE} | {"status": Status(written["status"])}
    case = JudgeCase(**of_case, passages=passages)
    marks = tuple((passage, start, end) for passage, start, end in written["marks"])
    conversation = tuple(written["conversation"])
    return Item(case, tuple(written["evidence"]), marks, conversation, written["asked_at"])


def blind(item: Item) -> Item:
    return read_item(written_item(item))

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


def written_item(item: Item) -> dict[str, Json]:
    case = item.case
    return {
        "question": case.question,
        "question_id": case.question_id,
        "language": case.language,
        "answer": case.answer,
        "status": str(case.status),
        "ground_truth": case.ground_truth,
        "rival": case.rival,
        "passages": [_written_passage(one) for one in case.passages],
        "evidence": list(item.evidence),
        "marks": [list(one) for one in item.marks],
        "conversation": list(item.conversation),
        "asked_at": item.asked_at,
    }


def read_item(written: Mapping[str, Any]) -> Item:
    """Return the item that `written_item` wrote.

    >>> item = Item(JudgeCase("Why?", answer="So.", passages=(Passage("a"),)), ("a",))
    >>> read_item(written_item(item)) == item
    True
    """
    case = JudgeCase(
        question=written["question"],
        language=written["language"],
        answer=written["answer"],
        status=Status(written["status"]),
        ground_truth=written["ground_truth"],
        passages=tuple(_read_passage(one) for one in written["passages"]),
        question_id=written["question_id"],
        rival=written["rival"],
    )
    marks = tuple((passage, start, end) for passage, start, end in written["marks"])
    conversation = tuple(written["conversation"])
    return Item(case, tuple(written["evidence"]), marks, conversation, written["asked_at"])


def blind(item: Item) -> Item:
    return read_item(written_item(item))


def _written_passage(passage: Passage) -> dict[str, Json]:
    return {
        "text": passage.text,
        "title": passage.title,
        "url": passage.url,
        "date": passage.date,
        "section": list(passage.section),
        "number": passage.number,
    }


def _read_passage(written: Mapping[str, Any]) -> Passage:
    shown = {name: written[name] for name in ("text", "title", "url", "date", "number")}
    return Passage(**shown, section=tuple(written["section"]))

"""Items as JSON: all that is shown of them, so that nothing else has to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.evals.rubrics.items import Item
from rag_assay.warehouse.identity import Json
from rag_assay.warehouse.schemas import Status


def written_item(item: Item) -> dict[str, Json]:
    """Return an item as JSON; what is not shown of a passage (ids, offsets, scores) is left out."""
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

    Raises:
        KeyError, TypeError, ValueError: it is none.

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
    """Return an item without what may tell where it is from: ids, offsets and scores of chunks, reasons."""
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

"""What a sheet shows of an item: texts by the names of their columns, blind to where the answer is from."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human.queue import Queue, Showing

QUESTION, ANSWER, SECOND, TRUTH, PASSAGE = "question", "answer", "second answer", "ground truth", "passage"
PASSAGES = "passages"


def texts_of(queue: Queue, showing: Showing) -> dict[str, str]:
    """Return the texts of a showing, in the order in which they are read.

    Of a pair, `answer` is the one that stands first, whichever it is. The ground truth is there where one
    of the item's rubrics shows it.
    """
    case = showing.item.case
    texts = {QUESTION: case.question}
    first, second = case.answer or "", case.rival
    if second is not None and showing.swapped:
        first, second = second, first
    texts[ANSWER] = first
    if second is not None:
        texts[SECOND] = second
    if case.ground_truth is not None and any(
        queue.rubrics[one].shows_ground_truth for one in showing.rubrics
    ):
        texts[TRUTH] = case.ground_truth
    for place, passage in enumerate(case.passages, 1):
        texts[f"{PASSAGE} {place}"] = _passage(passage, place)
    return texts


def join_passages(texts: Mapping[str, str]) -> str:
    """Return the passages of a showing as one text."""
    return "\n\n".join(text for name, text in texts.items() if name.startswith(f"{PASSAGE} "))


def _passage(passage: Passage, place: int) -> str:
    """Return a passage under the number that answers cite it by, with what is known of its document."""
    number = passage.number if passage.number is not None else place
    known = " · ".join(one for one in (passage.title, " › ".join(passage.section), passage.date) if one)
    head = " ".join(part for part in (f"[{number}]", known) if part)
    return "\n".join(part for part in (head, passage.url, passage.text) if part)

"""Which showings a sheet holds, and in which order: the same whenever it is worked out."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.human.item_order import showings
from rag_assay.evals.human.queue import Queue, Showing


def showings_of(queue: Queue, annotator: str | None, among: Sequence[str] = ()) -> list[Showing]:
    """Return the showings of an annotator; of a sheet that many work on, each item once, as it was drawn.

    among: names of those who share the work; unless given, the annotator scores every item
    """
    if annotator is not None:
        return showings(queue, annotator, among)
    return [Showing(one.item, one.rubrics, place) for place, one in enumerate(queue.items, 1)]

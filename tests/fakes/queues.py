"""Queues of made-up items, and people who go through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human.queue import Queue, QueuedItem, Showing
from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Rubric
from rag_assay.warehouse.human_scores import HumanScore

NOW = datetime(2026, 5, 4, 9, tzinfo=UTC)


def item_of(number: int, answer: str | None = None, rival: str | None = None) -> Item:
    """An item with two passages, one of which has its evidence."""
    passages = (
        Passage(f"Ferry {number} leaves at noon.", title="Ferries", url="https://ferries.example/", number=1),
        Passage("Tickets are sold on the quay.", section=("Tickets", "Quay"), date="2024-05-31", number=2),
    )
    case = JudgeCase(
        f"When does ferry {number} leave?",
        "en",
        answer or f"At noon [1], says plan {number}.",
        ground_truth="At noon.",
        passages=passages,
        question_id=f"q{number}",
        rival=rival,
    )
    return Item(case, ("leaves at noon",), ((0, len(f"Ferry {number} "), len(passages[0].text) - 1),))


def queue_of(items: int | Sequence[Item], rubrics: dict[str, Rubric] | None = None, **said: Any) -> Queue:
    """A queue of made-up items, scored by points unless rubrics are given."""
    of = rubrics or {"points": Points()}
    found = [item_of(n) for n in range(items)] if isinstance(items, int) else items
    queued = tuple(QueuedItem(one, tuple(of)) for one in found)
    facts: dict[str, Any] = {"study": "tiny", "seed": 7, "made_at": NOW, "population": len(queued), **said}
    return Queue(rubrics=of, items=queued, **facts)


def scores_of(
    queue: Queue,
    annotator: str,
    showing: Showing,
    value: Callable[[Showing], float | None] = lambda _: 5.0,
    **said: Any,
) -> list[HumanScore]:
    """The rows of an annotator who answers all that is asked of an item."""
    at = NOW + timedelta(seconds=showing.position)
    return [
        HumanScore(
            f"{annotator}-{showing.item.item_id}-{showing.showing}-{name}-{one.name}-{said}",
            queue.study,
            annotator,
            showing.item.item_id,
            name,
            queue.rubrics[name].version,
            at,
            one.name,
            **{
                "value": value(showing),
                "showing": showing.showing,
                "position": showing.position,
                "queue_version": queue.version,
                **said,
            },
        )
        for name, one in queue.asked(showing.item.item_id)
    ]

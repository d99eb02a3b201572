"""How many items of a queue the wanted precision needs, before and after people have scored some."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag_assay.evals.human.item_order import showings
from rag_assay.evals.human.item_sampling import QueueCandidate, draw_items
from rag_assay.evals.human.queue import Queue
from rag_assay.evals.human.queue_builder import items_needed, labels_needed, likely_variance
from rag_assay.evals.rubrics.binary import Binary
from rag_assay.evals.rubrics.pairwise import PairwiseRubric
from rag_assay.evals.rubrics.points import Points
from tests.fakes.queues import item_of, queue_of, scores_of

CELLS = ("a", "b")


def candidates_of(questions: int, rival: str | None = None) -> list[QueueCandidate]:
    against = "x.y.z.w" if rival else ""
    return [
        QueueCandidate(
            item_of(n, f"{cell} says so.", rival and f"{rival} {n}"),
            ("duel",) if rival else ("points",),
            frozenset({f"q{n}"}),
            frozenset({(cell, against)}),
        )
        for n in range(questions)
        for cell in CELLS
    ]


def queue_with(candidates: list[QueueCandidate], **rubrics: Points | PairwiseRubric | Binary) -> Queue:
    return replace(queue_of(1, rubrics or {"points": Points()}), items=tuple(draw_items(candidates, 7, None)))


def widest(size: int, half: float) -> int:
    return labels_needed(half, size, likely_variance([], (0.0, 1.0), size))


@pytest.mark.parametrize("precision", [0.05, 0.1, 0.3])
def test_each_cell_has_as_many_as_its_mean_needs(precision: float) -> None:
    candidates = candidates_of(300)
    needed = items_needed(queue_with(candidates), candidates, precision, [])
    assert needed == pytest.approx(2 * widest(300, precision), abs=1)


def test_equal_items_of_all_cells_are_needed_once() -> None:
    both = [
        QueueCandidate(one.item, one.rubrics, one.questions, frozenset((cell, "") for cell in CELLS))
        for one in candidates_of(300)[::2]
    ]
    assert items_needed(queue_with(both), both, 0.1, []) == widest(300, 0.1)


def test_scores_that_hardly_differ_need_fewer_and_those_that_do_as_many() -> None:
    candidates = candidates_of(300)
    queue = queue_with(candidates)
    at_first = items_needed(queue, candidates, 0.1, [])
    shown = showings(queue, "anna")[:50]
    alike = [row for one in shown for row in scores_of(queue, "anna", one)]
    split = [
        row for one in shown for row in scores_of(queue, "anna", one, lambda one: one.position % 2 * 5.0)
    ]
    reworded = [replace(row, rubric_version="old") for row in alike]
    assert items_needed(queue, candidates, 0.1, alike) < at_first / 2
    assert items_needed(queue, candidates, 0.1, split) == pytest.approx(at_first, abs=6)
    assert items_needed(queue, candidates, 0.1, reworded) == at_first


def test_pairs_need_their_own() -> None:
    candidates = [*candidates_of(40), *candidates_of(40, "At dusk.")]
    rubrics = {"points": Points(), "duel": PairwiseRubric(against="x.y.z.w")}
    queue = queue_with(candidates, **rubrics)
    assert items_needed(queue, candidates, 0.2, []) == pytest.approx(4 * widest(40, 0.2), abs=3)
    assert items_needed(queue, candidates, 1e-9, []) == len(candidates)


def test_nothing_needs_nothing() -> None:
    assert items_needed(queue_with([]), [], 0.1, []) == 0

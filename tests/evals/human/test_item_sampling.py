"""Drawing items: as likely as they say, every cell covered, and few others where the items change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rag_assay.evals.human.item_sampling import (
    MOST_LIKELY,
    QueueCandidate,
    draw_items,
    drawing_weight,
    probabilities,
    without_items,
)
from rag_assay.evals.study.study import Study
from tests.fakes.queues import item_of, queue_of

CELLS = ("a", "b", "c", "d")


Dispute = Callable[[int, str], float | None]
Floats = np.ndarray


def grid(
    questions: int, cells: Sequence[str] = CELLS, disputed: Dispute = lambda _n, _c: None
) -> list[QueueCandidate]:
    """An item for each question and cell; the last cell has the first ten questions alone."""
    return [
        QueueCandidate(
            item_of(n, f"{cell} says: at noon."),
            ("points",),
            frozenset({f"q{n}"}),
            frozenset({(cell, "")}),
            disputed(n, cell),
        )
        for n in range(questions)
        for cell in cells
        if cell != cells[-1] or n < 10
    ]


def cells_of(found: Sequence[object], candidates: list[QueueCandidate]) -> Counter[str]:
    cell = {one.item.item_id: next(iter(one.strata))[0] for one in candidates}
    return Counter(cell[getattr(one, "item_id")] for one in found)  # noqa: B009


def test_all_are_drawn_where_no_number_is_said() -> None:
    candidates = grid(12)
    for size in (None, len(candidates), 1_000):
        found = draw_items(candidates, 7, size)
        assert {one.item_id for one in found} == {one.item.item_id for one in candidates}
        assert {one.probability for one in found} == {1.0}
    assert draw_items([], 7, 5) == []


@pytest.mark.parametrize("size", [1, 3, 4, 5, 20, 60])
@pytest.mark.parametrize("by_dispute", [False, True])
def test_so_many_are_drawn_and_no_cell_is_without(size: int, by_dispute: bool) -> None:
    candidates = grid(40, disputed=lambda n, _c: n % 5 / 4)
    found = draw_items(candidates, 7, size, by_dispute=by_dispute)
    assert len(found) == len({one.item_id for one in found}) == size
    assert all(0 < one.probability <= 1 for one in found)
    assert len(cells_of(found, candidates)) == min(size, len(CELLS))
    assert len(without_items(candidates, found)) == len(CELLS) - min(size, len(CELLS))


def frequencies(
    candidates: list[QueueCandidate], size: int, times: int, by_dispute: bool
) -> tuple[Floats, Floats]:
    """How often each candidate was drawn by so many seeds, and the probability that it said."""
    places = {one.item.item_id: n for n, one in enumerate(candidates)}
    often, said = np.zeros(len(candidates)), np.full(len(candidates), np.nan)
    for seed in range(times):
        for one in draw_items(candidates, seed, size, by_dispute=by_dispute):
            often[places[one.item_id]] += 1 / times
            said[places[one.item_id]] = one.probability
    return often, said


@pytest.mark.parametrize("by_dispute", [False, True])
def test_items_are_drawn_as_likely_as_they_say(by_dispute: bool) -> None:
    candidates = grid(40, disputed=lambda n, c: (n % 5 + (c == "b")) / 5)
    often, said = frequencies(candidates, 30, 750, by_dispute)
    assert said.sum() == pytest.approx(30)
    assert np.abs(often - said).max() < 0.06
    assert np.abs(often - said).mean() < 0.02
    if by_dispute:
        assert said.max() > 2.5 * said.min()


def test_weighted_means_of_disputed_items_are_means_of_all() -> None:
    """The disputed are scored worse, so that the plain mean of what was drawn is too low."""
    candidates = grid(300, cells=("a", "b", "few"), disputed=lambda n, _c: n % 4 / 3)
    value = {one.item.item_id: 5.0 - 4.0 * (one.disputed or 0.0) for one in candidates}
    truth = np.mean(list(value.values()))
    plain, weighted = [], []
    for seed in range(80):
        found = draw_items(candidates, seed, 150, by_dispute=True)
        scores = np.array([value[one.item_id] for one in found])
        weights = 1 / np.array([one.probability for one in found])
        plain.append(scores.mean())
        weighted.append((scores * weights).sum() / weights.sum())
    assert np.mean(plain) < truth - 0.4
    assert np.mean(weighted) == pytest.approx(truth, abs=0.06)


def test_cells_are_scored_on_the_same_questions_which_judges_judge() -> None:
    candidates = grid(40, cells=("a", "b", "c", "none"))
    found = draw_items(candidates, 7, 24)
    questions = {
        cell: {one.item.case.question_id for one in found if f"{cell} says" in (one.item.case.answer or "")}
        for cell in "abc"
    }
    study = Study.model_construct(seed=7)
    ids = [f"q{n}" for n in range(40)]
    assert all(set(study.sampled(ids, 7)) <= one <= set(study.sampled(ids, 9)) for one in questions.values())


def test_a_further_question_moves_one_item_of_each_cell_at_most() -> None:
    before = {one.item_id for one in draw_items(grid(40), 7, 40)}
    after = {one.item_id for one in draw_items(grid(41), 7, 40)}
    assert len(before - after) <= len(CELLS)
    moved = [len(before - {one.item_id for one in draw_items(grid(40)[n:], 7, 40)}) for n in (1, 2, 3)]
    assert max(moved) <= 3


def test_a_larger_sample_holds_the_smaller() -> None:
    sets = [{one.item_id for one in draw_items(grid(40), 7, size)} for size in (4, 5, 10, 50, 100)]
    assert all(small <= large for small, large in pairwise(sets))


def test_the_order_of_the_candidates_says_nothing() -> None:
    candidates = grid(40, disputed=lambda n, _c: n % 3 / 2)
    for by_dispute in (False, True):
        forth = draw_items(candidates, 7, 30, by_dispute=by_dispute)
        back = draw_items(candidates[::-1], 7, 30, by_dispute=by_dispute)
        assert [one.item_id for one in forth] == [one.item_id for one in back]
        assert [one.probability for one in forth] == pytest.approx([one.probability for one in back])


def test_equal_items_of_several_cells_are_drawn_once_and_cover_all_of_them() -> None:
    shared = [
        QueueCandidate(item_of(n), ("points",), frozenset({f"q{n}"}), frozenset((cell, "") for cell in CELLS))
        for n in range(20)
    ]
    found = draw_items(shared, 7, 1)
    assert len(found) == 1
    assert without_items(shared, found) == set()
    assert found[0].probability == pytest.approx(1 / 20)


def test_the_more_disputed_come_sooner_and_nobody_is_left_out() -> None:
    candidates = grid(200, cells=("a", "none"), disputed=lambda n, _c: n % 2)
    found = draw_items(candidates, 7, None, by_dispute=True)
    early = [one.disputed for one in found[:50]]
    assert 0.7 < np.mean([one or 0.0 for one in early]) < 1.0, "likelier, not alone"
    assert drawing_weight(1.0) == MOST_LIKELY


def test_what_is_not_known_to_be_disputed_has_the_mean_weight() -> None:
    half = grid(100, cells=("a", "none"), disputed=lambda n, _c: None if n % 2 else 0.5)
    none = grid(100, cells=("a", "none"))
    for candidates in (half, none):
        found = draw_items(candidates, 7, 30, by_dispute=True)
        assert len({round(one.probability, 9) for one in found}) <= 2
        assert [one.item_id for one in found] == [one.item_id for one in draw_items(candidates, 7, 30)]


@pytest.mark.parametrize("size", [None, 200])
def test_what_was_scored_of_the_disputed_first_is_weighted_as_it_came(size: int | None) -> None:
    """People stop early: the disputed, who are scored worse, are most of what was scored."""
    candidates = grid(300, cells=("a", "none"), disputed=lambda n, _c: n % 4 / 3)
    value = {one.item.item_id: 5.0 - 4.0 * (one.disputed or 0.0) for one in candidates}
    truth = np.mean(list(value.values()))
    plain, weighted = [], []
    for seed in range(100):
        items = tuple(draw_items(candidates, seed, size, by_dispute=True))
        queue = replace(queue_of(1), items=items, order="disputed")
        scored = [one.item_id for one in items[:90]]
        found = probabilities(queue, scored)
        assert all(0 < found[one.item_id] <= one.probability for one in items)
        scores, weights = (
            np.array([value[one] for one in scored]),
            1 / np.array([found[one] for one in scored]),
        )
        plain.append(scores.mean())
        weighted.append((scores * weights).sum() / weights.sum())
    assert np.mean(plain) < truth - 0.4
    assert np.mean(weighted) == pytest.approx(truth, abs=0.08)


def test_probabilities_are_those_of_drawing_at_random_and_when_all_is_scored() -> None:
    candidates = grid(40, disputed=lambda n, _c: n % 4 / 3)
    for order, by_dispute in (("random", False), ("disputed", True)):
        items = tuple(draw_items(candidates, 7, 30, by_dispute=by_dispute))
        queue = replace(queue_of(1), items=items, order=order)
        said = {one.item_id: one.probability for one in items}
        for scored in ([], list(said), ["of another queue"], list(said)[: 10 if order == "random" else 0]):
            assert probabilities(queue, scored) == said

"""The effect of an axis and the interaction of two, on made values whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from rag_assay.evals.statistics.effects import RESAMPLES, effect, interaction, over_contexts
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import contrasts, paired_bootstrap

NAN = np.nan


def values(levels: list[float], n: int = 40, noise: float = 0.1, seed: int = 1) -> Floats:
    """Questions of different difficulty, levels that add something to each."""
    chance = np.random.default_rng(seed)
    return chance.normal(size=(n, 1)) + np.array(levels) + chance.normal(scale=noise, size=(n, len(levels)))


def test_contexts_of_a_question_count_where_it_has_every_level() -> None:
    table = np.array([[[1.0, 3.0], [5.0, 9.0]], [[1.0, 3.0], [NAN, 9.0]], [[NAN, 3.0], [5.0, NAN]]])
    assert over_contexts(table)[:2].tolist() == [[3.0, 6.0], [1.0, 3.0]]
    assert np.isnan(over_contexts(table)[2]).all()


def test_an_effect_is_the_paired_bootstrap_of_levels() -> None:
    table = values([0.0, 0.3, 0.2])
    found = effect(table, seed=7)
    assert found is not None
    assert (found.best, found.n) == (1, 40)
    assert found.mean == pytest.approx(table.mean(axis=0))
    apart = contrasts(table[:, [0, 2]] - table[:, [1]], 7, resamples=RESAMPLES)
    assert found.difference[[0, 2]] == pytest.approx(apart.differences.mean)
    assert found.p[[0, 2]] == pytest.approx(apart.p)
    assert found.difference_low[[0, 2]] == pytest.approx(apart.differences.low)
    assert found.low == pytest.approx(paired_bootstrap(table, 7, RESAMPLES).low)
    assert np.isnan(found.p[1])
    assert found.apart.tolist() == [True, False, bool(found.p[2] < 0.05)]


def test_lower_may_be_better() -> None:
    table = values([0.0, 0.5, -0.5])
    worse = effect(-table, seed=7, higher_is_better=False)
    better = effect(table, seed=7)
    assert worse is not None
    assert better is not None
    assert worse.best == better.best == 1
    assert worse.p == pytest.approx(better.p, nan_ok=True)
    assert worse.difference == pytest.approx(-better.difference)


def test_the_order_of_levels_changes_nothing() -> None:
    table = values([0.1, 0.4, 0.0, 0.38])
    order = [2, 0, 3, 1]
    one, other = effect(table, seed=7), effect(table[:, order], seed=7)
    assert one is not None
    assert other is not None
    assert order[other.best] == one.best
    assert other.p == pytest.approx(one.p[order], nan_ok=True)


def test_questions_of_one_cluster_are_one() -> None:
    table = np.repeat(values([0.0, 0.1], n=8, noise=0.15), 6, axis=0)
    alone, together = effect(table, seed=7), effect(table, seed=7, clusters=np.repeat(np.arange(8), 6))
    assert alone is not None
    assert together is not None
    assert together.p[0] > alone.p[0]
    assert together.low[0] < alone.low[0]


def test_questions_without_a_value_are_left_out() -> None:
    table = values([0.0, 0.3])
    gone = table.copy()
    gone[::4] = NAN
    found = effect(gone, seed=7)
    assert found is not None
    assert found.n == 30
    assert found.mean == pytest.approx(np.delete(table, np.s_[::4], axis=0).mean(axis=0))
    assert effect(np.full((4, 2), NAN), seed=7) is None
    assert effect(np.empty((0, 2)), seed=7) is None


def test_one_question_tells_nothing_apart() -> None:
    found = effect(np.array([[0.0, 1.0]]), seed=7)
    assert found is not None
    assert not found.apart.any()
    both = interaction(np.array([[[0.0, 1.0], [1.0, 0.0]]]), seed=7)
    assert both is not None
    assert both.p == 1.0
    assert not any(one.apart for one in both.best)


def grid(shape: list[list[float]], n: int = 60, noise: float = 0.2, seed: int = 1) -> Floats:
    chance = np.random.default_rng(seed)
    cells = np.array(shape)
    return chance.normal(size=(n, 1, 1)) + cells + chance.normal(scale=noise, size=(n, *cells.shape))


def test_axes_that_add_up_do_not_interact() -> None:
    found = interaction(grid([[0.0, 0.5, 0.1], [0.2, 0.7, 0.3]], noise=0.0), seed=7)
    assert found is not None
    assert (found.p, found.overall) == (1.0, 1)
    assert [one.level for one in found.best] == [1, 1, 1]


def test_a_best_level_that_depends_on_the_other_axis_is_found() -> None:
    found = interaction(grid([[0.0, 0.6, 0.0], [0.4, 0.1, 0.5]]), seed=7)
    assert found is not None
    assert found.p < 0.001
    assert found.overall == 1
    assert [one.level for one in found.best] == [1, 0, 1]
    assert [one.apart for one in found.best] == [False, True, False]
    assert found.best[1].difference == pytest.approx(found.means[0, 1] - found.means[1, 1])
    # of (0, 1): y - row mean - column mean + mean = 0.6 - 0.2 - 0.35 + 0.267
    assert abs(found.largest.value) == pytest.approx(0.317, abs=0.05)
    assert found.largest.here == 1
    assert found.largest.low < found.largest.value < found.largest.high


def test_differences_that_grow_but_do_not_turn_leave_one_level_the_best() -> None:
    found = interaction(grid([[0.0, 0.0], [0.2, 0.8]]), seed=7)
    assert found is not None
    assert found.p < 0.001
    assert not any(one.apart for one in found.best)


def test_levels_may_come_in_any_order_and_lower_be_better() -> None:
    table = grid([[0.0, 0.3, 0.0], [0.2, 0.1, 0.25]])
    one = interaction(table, seed=7)
    other = interaction(-table[:, ::-1, [1, 2, 0]], seed=7, higher_is_better=False)
    assert one is not None
    assert other is not None
    assert other.p == pytest.approx(one.p)
    assert other.overall == 1 - one.overall
    assert [1 - best.level for best in other.best] == [one.best[at].level for at in (1, 2, 0)]


def test_axes_without_interaction_are_said_to_interact_in_few_studies() -> None:
    shape = [[0.0, 0.3], [0.1, 0.4], [0.2, 0.5]]
    found = [interaction(grid(shape, n=30, seed=seed), seed=7) for seed in range(200)]
    wrong = sum(one is not None and one.p < 0.05 for one in found)
    assert wrong <= 18  # 10 are expected; more than 18 with a chance of 0.7 %

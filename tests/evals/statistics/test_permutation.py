"""The permutation tests against scipy, a published example and their definition; a leader found by luck."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from rag_assay.evals.statistics.clusters import sum_clusters
from rag_assay.evals.statistics.significance import ALPHA, paired_bootstrap, sign_flips, step_down


def theirs(column: np.ndarray, resamples: float = np.inf) -> float:
    found = stats.permutation_test(
        (column,), np.sum, permutation_type="samples", n_resamples=resamples, vectorized=False
    )
    return float(found.pvalue)


def test_fishers_own_example() -> None:
    """Of the 2^15 ways to choose the signs, 863 give as great a sum or greater (ch. III, section 21)."""
    darwin = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48.0])[:, None]
    assert sign_flips(darwin, 7, 2**14).tolist() == [2 * 863 / 2**15]


@pytest.mark.parametrize("n", [1, 2, 5, 9, 12])
def test_few_questions_are_exactly_scipys(n: int) -> None:
    columns = np.random.default_rng(n).normal(0.4, 1, size=(n, 4)).round(1)
    ours = sign_flips(columns, 7)
    assert ours == pytest.approx([theirs(columns[:, at]) for at in range(4)] if n > 1 else [1.0] * 4)


def test_many_questions_are_nearly_scipys() -> None:
    columns = np.random.default_rng(4).exponential(size=(60, 3)) - [1.0, 0.9, 0.7]
    ours = sign_flips(columns, 7)
    assert ours == pytest.approx([theirs(columns[:, at], 20_000) for at in range(3)], abs=0.02)


def test_drawn_signs_count_what_was_seen_as_one_of_them() -> None:
    """So that no p is 0 (Phipson and Smyth, Statistical Applications in Genetics 9, 2010)."""
    assert sign_flips(np.ones((40, 1)), 7, 999).tolist() == [1 / 1_000]
    assert step_down(np.ones((40, 2)) * [0, -1], 7, 999).p[1] == 1 / 1_000


def test_on_a_binary_metric_it_is_mcnemars_exact_test() -> None:
    column = np.array([1.0] * 9 + [-1.0] * 2 + [0.0] * 300)[:, None]
    assert sign_flips(column, 7)[0] == pytest.approx(stats.binomtest(2, 11).pvalue)


def test_clusters_change_sign_as_one() -> None:
    chance = np.random.default_rng(8)
    column, clusters = chance.normal(0.3, 1, size=(30, 1)), np.repeat(np.arange(10), 3)
    sums = column.reshape(10, 3).sum(axis=1)
    reached = [abs(np.dot(signs, sums)) >= abs(sums.sum()) - 1e-9 for signs in product((1, -1), repeat=10)]
    assert sign_flips(column, 7, clusters=clusters)[0] == pytest.approx(np.mean(reached))
    order = chance.permutation(30)
    assert sign_flips(column[order], 7, clusters=clusters[order])[0] == pytest.approx(np.mean(reached))


def test_missing_values_and_none() -> None:
    columns = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan]])
    assert sign_flips(columns, 7).tolist() == pytest.approx([0.5, np.nan], nan_ok=True)
    assert len(sign_flips(np.zeros((4, 0)), 7)) == 0
    assert np.isnan(sign_flips(np.zeros((0, 2)), 7)).all()
    assert sign_flips(np.zeros((9, 1)), 7).tolist() == [1.0]
    assert step_down(columns, 7).p.tolist() == pytest.approx([0.5, np.nan], nan_ok=True)
    assert len(step_down(np.zeros((4, 0)), 7).p) == 0


def slow_step_down(differences: np.ndarray) -> list[float]:
    """Follow the definition: every choice of signs, the range over what is left; the leader is all zeros."""
    cells = np.hstack([differences, np.zeros((len(differences), 1))])
    leader = cells.shape[1] - 1
    flipped = np.array(list(product((1, -1), repeat=len(cells)))) @ cells
    seen = np.abs(differences.sum(axis=0))
    adjusted, highest, left = [0.0] * leader, 0.0, [*np.argsort(seen)[::-1], leader]
    for at in list(left[:-1]):
        ranges = flipped[:, left].max(axis=1) - flipped[:, left].min(axis=1)
        highest = max(highest, float(np.mean(ranges >= seen[at] - 1e-9)))
        adjusted[at] = highest
        left.remove(at)
    return adjusted


@pytest.mark.parametrize("seed", range(4))
def test_the_step_down_test_is_its_definition(seed: int) -> None:
    differences = np.random.default_rng(seed).normal([-0.2, -0.9, -1.6, 0.0], 1, size=(8, 4)).round(2)
    assert step_down(differences, 7).p.tolist() == pytest.approx(slow_step_down(differences))


def test_of_one_comparison_it_is_the_permutation_test() -> None:
    for n in (7, 80):
        column = np.random.default_rng(n).normal(0.2, 1, size=(n, 1))
        assert step_down(column, 7).p.tolist() == sign_flips(column, 7).tolist()


def test_its_critical_value_is_students_for_one_and_grows_with_cells() -> None:
    values = np.random.default_rng(3).normal(size=(200, 12))
    one, many = (step_down(values[:, 1:count] - values[:, :1], 7).critical for count in (2, 12))
    error = (values[:, 1] - values[:, 0]).std(ddof=1) / np.sqrt(200)
    assert one / error == pytest.approx(stats.t.ppf(1 - ALPHA / 2, 199), abs=0.06)
    tukey = stats.studentized_range.ppf(1 - ALPHA, 12, 199 * 11) / np.sqrt(200)
    assert many == pytest.approx(tukey, rel=0.08), "of cells that vary alike it is Tukey's range test"
    assert step_down(np.ones((4, 1)), 7).critical == np.inf


def test_equal_cells_are_not_significantly_worse_than_a_leader_by_luck() -> None:
    """Ten cells of equal worth: the leader is the luckiest, and Holm alone takes its luck for worth."""
    chance, erred = np.random.default_rng(9), 0
    for _ in range(200):
        hardness = chance.random((60, 1))
        values = (chance.random((60, 10)) < hardness).astype(np.float64)
        leader = int(values.mean(axis=0).argmax())
        others = np.delete(values, leader, axis=1) - values[:, [leader]]
        erred += bool((step_down(others, 7, 1_000).p < ALPHA).any())
    assert erred / 200 <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / 200)


def test_worse_cells_leave_the_others_their_power() -> None:
    chance = np.random.default_rng(11)
    good = chance.normal(-0.3, 1, size=(120, 1))
    bad = chance.normal(-2.0, 1, size=(120, 30))
    alone, among = step_down(good, 7), step_down(np.hstack([good, bad]), 7)
    assert among.p[0] == pytest.approx(alone.p[0], abs=0.01)
    assert (among.p[1:] < 0.001).all()


@pytest.mark.parametrize("test", [sign_flips, lambda *args: step_down(*args).p])
def test_the_seed_decides_and_the_sign_does_not_matter(test) -> None:  # type: ignore[no-untyped-def]
    columns = np.random.default_rng(1).exponential(size=(50, 3)) - 0.8
    assert test(columns, 7).tolist() == test(-columns, 7).tolist() == test(columns, 7).tolist()
    assert test(columns, 7).tolist() != test(columns, 8).tolist()


def test_bootstrap_and_permutation_agree() -> None:
    columns = np.random.default_rng(6).normal([0.0, 0.2, 0.35], 1, size=(100, 3))
    assert sign_flips(columns, 7) == pytest.approx(paired_bootstrap(columns, 7).p, abs=0.02)
    clusters = np.repeat(np.arange(50), 2)
    assert sum_clusters(columns, clusters)[0] == pytest.approx(columns[0] + columns[1])
    both = sign_flips(columns, 7, clusters=clusters), paired_bootstrap(columns, 7, clusters=clusters).p
    assert both[0] == pytest.approx(both[1], abs=0.02)


def test_thousands_of_clusters() -> None:
    columns = np.random.default_rng(2).normal([-0.3, 0.0], 1, size=(1_500, 2))
    assert sign_flips(columns, 7, 500)[0] < 0.05 < sign_flips(columns, 7, 500)[1]
    assert step_down(columns, 7, 500).p[0] < 0.05

"""The paired bootstrap against computations by other means, and how often it errs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rag_assay.evals.statistics.significance import ALPHA, holm, paired_bootstrap


def slow(differences: np.ndarray, seed: int, resamples: int) -> float:
    """Compute the p-value of one column resample by resample, as the definition reads."""
    chance = np.random.default_rng(seed)
    n, mean = len(differences), differences.mean()
    t = abs(mean) / (differences.std(ddof=1) / np.sqrt(n))
    reached = 0
    for _ in range(resamples):
        drawn = (differences - mean)[chance.integers(0, n, n)]
        error = drawn.std(ddof=1) / np.sqrt(n)
        reached += abs(drawn.mean()) >= t * error * (1 - 1e-9)
    return (reached + 1) / (resamples + 1)


def test_the_definition_computed_slowly_gives_the_same() -> None:
    chance = np.random.default_rng(3)
    columns = chance.normal([0.0, 0.15, 0.3], 1.0, size=(40, 3)).round(1)
    found = paired_bootstrap(columns, seed=7, resamples=2_000)
    for at in range(3):
        assert found.p[at] == pytest.approx(slow(columns[:, at], 11, 2_000), abs=0.03)
        assert found.mean[at] == pytest.approx(columns[:, at].mean())


def test_on_many_normal_differences_it_is_students_test() -> None:
    columns = np.random.default_rng(5).normal([0.0, 0.05, 0.1, 0.2, 0.6], 1.0, size=(400, 5))
    found = paired_bootstrap(columns, seed=7)
    theirs = stats.ttest_1samp(columns, 0.0)
    assert found.p == pytest.approx(theirs.pvalue, abs=0.012)
    low, high = theirs.confidence_interval(0.95)
    assert found.low == pytest.approx(low, abs=0.006)
    assert found.high == pytest.approx(high, abs=0.006)
    assert found.p[4] == pytest.approx(theirs.pvalue[4], rel=1e-6), "beyond all resamples"
    assert found.p[4] < 1e-8


@pytest.mark.parametrize("n", [12, 60, 225])
@pytest.mark.parametrize("kind", ["normal", "binary", "rare", "skewed"])
def test_without_a_difference_one_in_twenty_is_told_apart_at_most(kind: str, n: int) -> None:
    chance = np.random.default_rng(n)
    size = (n, 1_200)
    columns = {
        "normal": lambda: chance.normal(size=size),
        "binary": lambda: chance.integers(0, 2, size) - chance.integers(0, 2, size),
        "rare": lambda: chance.choice([-1.0, 0.0, 1.0], size, p=[0.05, 0.9, 0.05]),
        "skewed": lambda: chance.exponential(size=size) - 1,
    }[kind]().astype(np.float64)
    rate = float((paired_bootstrap(columns, seed=7, resamples=800).p < ALPHA).mean())
    tolerance = 3 * np.sqrt(ALPHA * (1 - ALPHA) / 1_200)
    assert rate < ALPHA + tolerance + (0.02 if kind == "skewed" else 0)
    if (kind, n) in {("normal", 60), ("normal", 225), ("binary", 60), ("binary", 225)}:
        assert rate > ALPHA - tolerance, "it tells less apart than it could"


def test_the_best_of_equals_is_seldom_told_apart_and_nobody_wins() -> None:
    """Ten cells of equal worth, 150 studies: the leader is whichever has the luck."""
    chance = np.random.default_rng(9)
    parted = won = 0
    for _ in range(150):
        hardness = chance.random((60, 1))
        values = (chance.random((60, 10)) < hardness).astype(np.float64)
        leader = int(values.mean(axis=0).argmax())
        others = np.delete(values, leader, axis=1) - values[:, [leader]]
        apart = holm(paired_bootstrap(others, seed=7, resamples=1_000).p) < ALPHA
        parted += leader != 0 and bool(apart[0])  # cell 0 stands for the best
        won += bool(apart.all())
    assert parted / 150 <= ALPHA
    assert won == 0


def test_against_a_fixed_cell_one_family_in_twenty_errs() -> None:
    chance = np.random.default_rng(10)
    erred = 0
    for _ in range(300):
        p = paired_bootstrap(chance.normal(size=(40, 6)) - chance.normal(size=(40, 1)), 7, 600).p
        erred += bool((holm(p) < ALPHA).any())
    assert erred / 300 <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / 300)


def test_a_difference_that_is_there_is_found() -> None:
    """225 questions, 0.374 against 0.428: intervals meet, the pairs do not leave a doubt."""
    chance = np.random.default_rng(2)
    hard = chance.beta(0.6, 0.8, 225)
    gain = chance.normal(0.054, 0.12, 225)
    found = paired_bootstrap(gain[:, None], seed=7)
    spread = 1.96 * hard.std() / np.sqrt(225)
    assert 2 * spread > 0.054, "unpaired intervals meet"
    assert found.p[0] < 1e-6


def test_pairs_without_both_values_are_left_out() -> None:
    full = np.random.default_rng(1).normal(0.3, 1, size=(50, 1))
    gappy = np.vstack([full, np.full((5, 1), np.nan)])
    one, other = paired_bootstrap(full, 7), paired_bootstrap(gappy, 7)
    assert other.mean == pytest.approx(one.mean)
    assert other.p == pytest.approx(one.p, abs=0.02)


def test_columns_do_not_touch_each_other() -> None:
    columns = np.random.default_rng(1).normal(0.2, 1, size=(30, 450))  # more than a block
    together, alone = paired_bootstrap(columns, 7, 5_000), paired_bootstrap(columns[:, [440]], 7, 5_000)
    assert together.p[440] == alone.p[0]
    assert together.low[440] == pytest.approx(alone.low[0])


def test_many_questions_are_drawn_in_parts() -> None:
    columns = np.random.default_rng(1).normal(0.01, 1, size=(30_000, 1))
    found = paired_bootstrap(columns, 7, 300)
    assert found.p[0] == pytest.approx(stats.ttest_1samp(columns, 0.0).pvalue[0], abs=0.1)


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([0.0] * 40, 1.0),
        ([1.0], 1.0),
        ([1.0, 1.0], 0.5),
        ([1.0, 1.0, 1.0], 0.25),
        ([0.25] * 5, 1 / 16),
        ([0.25] * 6, 1 / 32),
        ([0.5] * 5 + [0.0] * 500, 1 / 16),  # five questions differ, however many do not
        ([1e-16] * 60, 1.0),  # sums of the same numbers in another order
    ],
)
def test_few_differences_tell_little(values: list[float], p: float) -> None:
    assert paired_bootstrap(np.array(values)[:, None], 7).p[0] >= p


def test_constant_differences_are_sure_and_none_are_not() -> None:
    found = paired_bootstrap(np.array([[0.25, np.nan]] * 40), 7)
    assert (found.low[0], found.mean[0], found.high[0]) == (0.25, 0.25, 0.25)
    assert found.p[0] < 1e-9
    assert np.isnan([found.mean[1], found.low[1], found.p[1]]).all()
    assert len(paired_bootstrap(np.zeros((5, 0)), 7).p) == 0
    assert np.isnan(paired_bootstrap(np.zeros((0, 1)), 7).p).all()


def test_the_seed_decides() -> None:
    columns = np.random.default_rng(1).normal(0.2, 1, size=(30, 1))
    assert paired_bootstrap(columns, 7).p == paired_bootstrap(columns, 7).p
    assert paired_bootstrap(columns, 7).p != paired_bootstrap(columns, 8).p


def test_the_sign_does_not_matter() -> None:
    columns = np.random.default_rng(1).exponential(size=(50, 1)) - 0.8
    one, other = paired_bootstrap(columns, 7), paired_bootstrap(-columns, 7)
    assert one.p == other.p
    assert (one.low, one.high) == (-other.high, -other.low)


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_the_step_down_of_the_paper(seed: int) -> None:
    chance = np.random.default_rng(seed)
    p = chance.random(12) ** 3
    rejected = set()
    for step, at in enumerate(np.argsort(p)):  # reject while p(i) <= alpha / (m - i + 1)
        if p[at] > ALPHA / (12 - step):
            break
        rejected.add(int(at))
    assert {int(at) for at in np.flatnonzero(holm(p) <= ALPHA)} == rejected
    assert (holm(p) >= p).all()


def test_holm_by_hand() -> None:
    assert holm(np.array([0.04])).tolist() == [0.04]
    assert holm(np.array([0.5, 0.9, 0.8])).tolist() == [1, 1, 1]
    assert len(holm(np.zeros(0))) == 0

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from rag_assay.evals.statistics.bootstrap import UNIT, Interval, bootstrap, intervals


@pytest.mark.parametrize(("hits", "n"), [(120, 200), (30, 100), (250, 500)])
def test_the_interval_of_a_share_is_that_of_the_normal_approximation(hits: int, n: int) -> None:
    values = np.array([1.0] * hits + [0.0] * (n - hits))
    found = bootstrap(values, seed=7)
    assert found is not None
    share = hits / n
    half = 1.96 * sqrt(share * (1 - share) / n)
    assert found.mean == pytest.approx(share)
    assert found.low == pytest.approx(share - half, abs=0.012)
    assert found.high == pytest.approx(share + half, abs=0.012)


def test_the_seed_decides() -> None:
    values = np.random.default_rng(1).random(60)
    assert bootstrap(values, 7) == bootstrap(values, 7)
    assert bootstrap(values, 7) != bootstrap(values, 8)


def test_four_times_the_questions_halve_the_interval() -> None:
    few = bootstrap(np.array([0.0, 1.0] * 50), 7)
    many = bootstrap(np.array([0.0, 1.0] * 200), 7)
    assert few is not None
    assert many is not None
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(2, rel=0.15)


def test_one_value_or_cluster_has_no_interval() -> None:
    assert bootstrap(np.array([0.4]), 7) == Interval(0.4, None, None)
    alone = bootstrap(np.array([0.25, 0.75, 0.5]), 7, np.zeros(3, np.int64))
    assert alone == Interval(0.5, None, None)


def test_equal_values_are_as_sure_as_they_look_but_for_shares() -> None:
    assert bootstrap(np.array([0.5] * 9), 7) == Interval(0.5, 0.5, 0.5)
    found = bootstrap(np.ones(9), 7, None, UNIT)
    assert found is not None
    assert found.low == pytest.approx(9 / (9 + stats.t.ppf(0.975, 8) ** 2))  # Wilson's at 1
    assert found.high == 1


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.0, 5.0)])
def test_a_bounded_mean_stays_within_its_bounds_and_has_a_width(low: float, high: float) -> None:
    """Values at a bound have no spread of their own: 16 of 19 are perfect, two are equal, one fails."""
    scale = high - low
    for values in ([1.0] * 16 + [0.5, 0.6, 0.75], [0.6, 0.6], [1.0] * 8, [0.0] * 8, [0.0] + [1.0] * 30):
        found = bootstrap(low + scale * np.array(values), 7, None, (low, high))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        assert low <= found.low < found.high <= high
        assert found.low <= found.mean <= found.high
    several = bootstrap(low + scale * np.array([1.0] * 16 + [0.5, 0.6, 0.75]), 7, None, (low, high))
    assert several is not None
    assert several.low is not None
    assert (several.low - low) / scale > 0.7, "an interval as wide as the range says nothing"


def test_values_outside_the_bounds_have_an_interval_all_the_same() -> None:
    found = bootstrap(np.array([0.2, 0.9, 1.4, 0.3]), 7, None, UNIT)
    assert found == bootstrap(np.array([0.2, 0.9, 1.4, 0.3]), 7)


def test_one_document_among_many_questions_is_one_observation() -> None:
    """A cluster of 60 questions and four of one: as good as hardly more than one."""
    values = np.array([1.0] * 60 + [0.0, 1.0, 1.0, 0.0])
    found = bootstrap(values, 7, np.array([0] * 60 + [1, 2, 3, 4]), UNIT)
    assert found is not None
    assert found.low is not None
    assert found.low < 0.3


@pytest.mark.parametrize(("hits", "n"), [(3, 20), (81, 263), (1, 29), (15, 148)])
def test_a_share_has_wilsons_interval(hits: int, n: int) -> None:
    """Of Newcombe's examples (Statistics in Medicine 1998), with Student's quantile for the normal one.

    The design effect is that of an error estimated with n - 1: (n / (n - 1) * (n - 1) + 1) / n.
    """
    found = bootstrap(np.array([1.0] * hits + [0.0] * (n - hits)), 7, None, UNIT)
    z, p = stats.t.ppf(0.975, n - 1), hits / n
    m = n / ((n + 1) / n)
    middle = (p + z**2 / (2 * m)) / (1 + z**2 / m)
    half = z * sqrt(p * (1 - p) / m + z**2 / (4 * m**2)) / (1 + z**2 / m)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half))


def test_many_values_have_nearly_scipys_studentised_interval() -> None:
    values = np.random.default_rng(4).beta(0.6, 0.4, 200)
    found, theirs = bootstrap(values, 7), stats.t.interval(0.95, 199, values.mean(), stats.sem(values))
    percentiles = stats.bootstrap((values,), np.mean, method="BCa", rng=np.random.default_rng(1))
    assert found is not None
    assert (found.low, found.high) == pytest.approx(theirs, abs=0.004)
    assert (found.low, found.high) == pytest.approx(tuple(percentiles.confidence_interval), abs=0.008)


def test_clusters_that_agree_make_the_interval_wider() -> None:
    values = np.repeat(np.random.default_rng(1).random(25), 4)
    plain, drawn = bootstrap(values, 7), bootstrap(values, 7, np.repeat(np.arange(25), 4))
    assert plain is not None
    assert drawn is not None
    assert drawn.high - drawn.low == pytest.approx(2 * (plain.high - plain.low), rel=0.15)
    shares = (values > 0.5).astype(float)
    one, four = bootstrap(shares[::4], 7, None, UNIT), bootstrap(shares, 7, np.repeat(np.arange(25), 4), UNIT)
    assert one is not None
    assert four is not None
    assert (one.low, one.high) == pytest.approx((four.low, four.high), abs=0.012)


def test_columns_are_what_they_are_alone() -> None:
    table = np.random.default_rng(3).random((30, 4))
    table[:5, 1], table[:, 2] = np.nan, np.nan
    together = intervals(table, 7)
    assert together[2] is None
    alone, same = bootstrap(table[:, 0], 7), together[0]
    assert alone is not None
    assert same is not None
    assert (same.low, same.high) == pytest.approx((alone.low, alone.high))
    other, mine = bootstrap(table[5:, 1], 7), together[1]
    assert other is not None
    assert mine is not None
    assert (mine.low, mine.high) == pytest.approx((other.low, other.high), abs=0.02)
    assert intervals(np.zeros((0, 2)), 7) == [None, None]


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_where_resamples_have_no_spread_there_is_an_interval_all_the_same(scale: float) -> None:
    found = bootstrap(scale * np.array([1.0] * 11 + [0.5]), 7)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.mean < found.high


def test_without_values_there_is_no_interval() -> None:
    assert bootstrap(np.zeros(0), 7) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        bootstrap(np.array([0.5, bad]), 7)

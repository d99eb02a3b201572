from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from evals.statistics.bootstrap import bootstrap


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


def test_one_value_is_as_sure_as_it_looks() -> None:
    found = bootstrap(np.array([0.4]), 7)
    assert found is not None
    assert (found.low, found.mean, found.high) == (0.4, 0.4, 0.4)


def test_without_values_there_is_no_interval() -> None:
    assert bootstrap(np.zeros(0), 7) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        bootstrap(np.array([0.5, bad]), 7)

"""How many labels an interval needs, tried on simulated people and answers."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy.special import stdtrit

from rag_assay.evals.human.queue_builder import labels_needed, likely_variance

POINTS = np.array([0.0, 3.0, 5.0])


def half_width(values: np.ndarray, population: int) -> float:
    n = len(values)
    return float(stdtrit(n - 1, 0.975) * sqrt(values.var(ddof=1) * (1 - n / population) / n))


@pytest.mark.parametrize("shares", [(0.2, 0.3, 0.5), (0.05, 0.05, 0.9), (0.5, 0.0, 0.5)])
@pytest.mark.parametrize("population", [40, 300, 5_000])
def test_so_many_labels_give_the_wanted_interval(population: int, shares: tuple[float, ...]) -> None:
    rng = np.random.default_rng(7)
    everybody = rng.choice(POINTS, population, p=shares)
    n = labels_needed(0.4, population, float(everybody.var(ddof=1)))
    assert 2 <= n <= population
    found = [rng.choice(everybody, n, replace=False) for _ in range(2_000)]
    near = np.mean([abs(one.mean() - everybody.mean()) <= 0.4 for one in found])
    assert near >= 0.935
    assert np.mean([half_width(one, population) for one in found]) == pytest.approx(0.4, abs=0.05)


def test_one_label_less_is_too_few() -> None:
    for population in (10, 100, 1_000):
        for variance in (0.05, 0.25):
            n = labels_needed(0.1, population, variance)
            wide = [
                stdtrit(m - 1, 0.975) * sqrt(variance * (1 - m / population) / m) for m in (n - 1, n) if m > 1
            ]
            assert wide[-1] <= 0.1
            assert len(wide) == 1 or wide[0] > 0.1


@pytest.mark.parametrize(
    ("population", "half", "variance", "needed"),
    [(0, 0.1, 0.25, 0), (1, 0.1, 0.25, 1), (2, 0.1, 0.25, 2), (500, 1e-12, 0.25, 500), (500, 0.5, 0.0, 2)],
)
def test_the_ends(population: int, half: float, variance: float, needed: int) -> None:
    assert labels_needed(half, population, variance) == needed


def test_few_equal_scores_do_not_say_that_all_are_equal() -> None:
    widest = likely_variance([], (0.0, 5.0), 300)
    few, many = (likely_variance([5.0] * n, (0.0, 5.0), 300) for n in (3, 100))
    assert widest == pytest.approx(6.25, rel=0.01)
    assert 0.05 * widest < many < few <= widest
    assert labels_needed(0.25, 300, many) < labels_needed(0.25, 300, few) <= labels_needed(0.25, 300, widest)


def test_a_plan_from_few_labels_suffices_most_of_the_time() -> None:
    rng = np.random.default_rng(7)
    near = []
    for _ in range(1_000):
        everybody = rng.choice(POINTS, 300, p=(0.2, 0.3, 0.5))
        pilot = rng.choice(everybody, 15, replace=False)
        n = labels_needed(0.4, 300, likely_variance(list(pilot), (0.0, 5.0), 300))
        near.append(abs(rng.choice(everybody, n, replace=False).mean() - everybody.mean()) <= 0.4)
    assert np.mean(near) >= 0.94

"""Whether two sets of questions rank the same cells alike: Kendall's tau-b of the cells' means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 2_000
CONFIDENCE = 0.95
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    """Tau-b of two rankings of cells, and the bounds of its bootstrap interval.

    tau: 1 for the same order, -1 for the opposite, 0 for orders that have nothing to do with each other
    """

    tau: float
    low: float
    high: float


def tau_b(one: Values, other: Values) -> float:
    """Return Kendall's tau-b of two lists of numbers (Kendall, Biometrika 1945); NaN where one is constant.

    Pairs that one list has equal count for neither order.

    >>> tau_b(np.array([1.0, 2, 3]), np.array([10.0, 30, 20])).__round__(3)
    0.333
    """
    from scipy.stats import kendalltau

    return float(kendalltau(one, other).statistic)


def agreement(one: Values, other: Values, seed: int, resamples: int = RESAMPLES) -> Agreement:
    """Return how well the means of the same cells agree on two sets of questions.

    The interval is the percentile bootstrap's (Efron, Annals of Statistics 1979): the questions of both sets
    are drawn again, each set by itself, and the cells are ranked again. Draws in which all cells of a set are
    equal say nothing and are left out.

    Args:
        one: values of a metric, shape (questions, cells), finite.
        other: of the other questions, shape (questions, cells), the cells in the same order.

    >>> rising = np.array([[0.1, 0.2, 0.3], [0.2, 0.4, 0.9]])
    >>> agreement(rising, rising, seed=7)
    Agreement(tau=1.0, low=1.0, high=1.0)
    """
    if one.shape[1] != other.shape[1] or one.shape[1] < 2 or not len(one) or not len(other):
        raise ValueError("two sets of questions are compared on the same two cells or more")
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(resamples):
        first = one[draw.integers(0, len(one), len(one))].mean(axis=0)
        second = other[draw.integers(0, len(other), len(other))].mean(axis=0)
        found.append(tau_b(first, second))
    tail = (1 - CONFIDENCE) / 2 * 100
    taus = np.array(found)
    low, high = np.percentile(taus[np.isfinite(taus)], [tail, 100 - tail])
    return Agreement(tau_b(one.mean(axis=0), other.mean(axis=0)), float(low), float(high))


def halves(values: Values, seed: int, times: int = 200) -> float:
    """Return the mean tau-b of two halves of the same questions, drawn so often: what chance leaves.

    values: shape (questions, cells)
    """
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(times):
        order = draw.permutation(len(values))
        middle = len(values) // 2
        found.append(tau_b(values[order[:middle]].mean(axis=0), values[order[middle:]].mean(axis=0)))
    return float(np.nanmean(found))

"""Agreement of two numbers over cases that are not independent, by leaving out one cluster after another."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.estimate import CONFIDENCE, Estimate, Floats
from rag_assay.evals.statistics.resampling import EQUAL
from rag_assay.evals.statistics.shares import least_of_all

FEWEST = 3
"""Clusters, below which they show no spread."""
Agree = Callable[[Floats, Floats], Estimate]


def over_clusters(
    agree: Agree, one: Floats, other: Floats, clusters: Codes, bounds: tuple[float, float] = (-1.0, 1.0)
) -> Estimate:
    """Return an agreement with its interval over clusters; where each case is one of its own, as it comes.

    The standard error is the jackknife's, which leaves out one cluster at a time (Efron and Tibshirani, An
    Introduction to the Bootstrap, 1993, ch. 11), and the interval Student's of the area hyperbolic tangent,
    so that it keeps within the bounds. Agreement without exception has Wilson's of as many hits as there are
    clusters.

    Args:
        agree: what to compute, as `roc_auc` with labels for numbers, `cohens_kappa`, `kendall`.
        one, other: of each case, shape (n,).
        clusters: number of each case's cluster, shape (n,), without gaps.
        bounds: smallest and largest agreement.

    >>> from rag_assay.evals.statistics.rank_correlation import kendall
    >>> one, other = np.arange(8.0), np.array([1.0, 0, 2, 3, 5, 4, 7, 6])
    >>> found = over_clusters(kendall, one, other, np.array([0, 0, 1, 1, 2, 2, 3, 3]))
    >>> round(found.value, 3), found.low < found.value < found.high
    (0.786, True)
    """
    found = agree(one, other)
    groups = int(clusters.max(initial=-1)) + 1
    if found.value is None or groups == len(one):
        return found
    bare = Estimate(found.value, n=found.n)
    if groups < FEWEST:
        return bare._replace(reason=f"no interval: they are of {groups} independent questions")
    least, span = bounds[0], bounds[1] - bounds[0]
    middle = 2 * (found.value - least) / span - 1
    if math.isclose(abs(middle), 1.0):
        end = 2 * least_of_all(groups) - 1
        low, high = (end, 1.0) if middle > 0 else (-1.0, -end)
        return bare._replace(low=least + (low + 1) / 2 * span, high=least + (high + 1) / 2 * span)
    without = [agree(one[clusters != at], other[clusters != at]).value for at in range(groups)]
    if any(value is None for value in without):
        return bare._replace(reason="no interval: without one question there is nothing to compare")
    others = 2 * (np.array(without, np.float64) - least) / span - 1
    if np.ptp(others) <= EQUAL:
        return bare._replace(reason="no interval: no question changes anything")
    low, high = _interval(middle, others)
    return bare._replace(low=least + (low + 1) / 2 * span, high=least + (high + 1) / 2 * span)


def _interval(middle: float, without: Floats) -> tuple[float, float]:
    from scipy.special import stdtrit  # 0.2 s, which a run without scores of people has not

    groups = len(without)
    error = math.sqrt((groups - 1) / groups * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(groups - 1, (1 + CONFIDENCE) / 2)) * error / (1 - middle**2)
    return math.tanh(math.atanh(middle) - half), math.tanh(math.atanh(middle) + half)

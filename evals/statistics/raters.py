"""What each of several people does when they score the same items: who is mild, who drifts, who repeats."""

from __future__ import annotations

import numpy as np

from rag_assay.evals.statistics.bootstrap import RESAMPLES, UNIT, Bounds, bootstrap
from rag_assay.evals.statistics.clusters import Codes, sum_clusters
from rag_assay.evals.statistics.estimate import CONFIDENCE, Estimate, Floats, paired
from rag_assay.evals.statistics.significance import paired_bootstrap

FEWEST = 3
"""With fewer scores, or clusters of them, nothing is said of a trend."""


def to_the_others(items: Codes, values: Floats) -> Floats:
    """Return each score less the mean of what the others gave to the same item; NaN where nobody else did.

    Args:
        items: number of the item of each score, from 0, shape (scores,).
        values: the scores, one a person and item, shape (scores,).

    >>> to_the_others(np.array([0, 0, 0, 1]), np.array([5.0, 3.0, 0.0, 5.0])).tolist()
    [3.5, 0.5, -4.0, nan]
    """
    often, total = np.bincount(items), np.bincount(items, weights=values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(values - (total[items] - values) / (often[items] - 1))


def mean_of(
    values: Floats, seed: int, clusters: Codes | None = None, bounds: Bounds = (None, None)
) -> Estimate:
    """Return the mean of some numbers with its interval (`evals.statistics.bootstrap`).

    >>> mean_of(np.array([]), seed=7).reason
    'there is none'
    """
    found = bootstrap(values, seed, clusters, bounds) if len(values) else None
    if found is None:
        return Estimate(None, reason="there is none")
    reason = "too few for an interval" if found.low is None else None
    return Estimate(found.mean, found.low, found.high, len(values), reason)


def bias_of(differences: Floats, seed: int, clusters: Codes | None = None) -> Estimate:
    """Return the mean of somebody's differences to the others (`to_the_others`) with its interval.

    The interval is the paired bootstrap's (`evals.statistics.significance`): that of a mean would take
    differences of 0 and 1 for a share, which cannot be below 0.

    differences: finite

    >>> bias_of(np.array([3.5, 0.5, 0.5, 2.0, 1.0]), seed=7).value
    1.5
    """
    if not len(differences):
        return Estimate(None, reason="nobody else has scored these items")
    binary = bool(np.isin(differences, (-1.0, 0.0, 1.0)).all())
    found = paired_bootstrap(differences[:, None], seed, RESAMPLES, clusters, binary=binary)
    low, high = float(found.low[0]), float(found.high[0])
    if not np.isfinite([low, high]).all():
        return Estimate(float(found.mean[0]), n=len(differences), reason="no interval: too few differ")
    return Estimate(float(found.mean[0]), low, high, len(differences))


def equal_pairs(items: Codes, values: Floats, seed: int, clusters: Codes | None = None) -> Estimate:
    """Return the share of items' pairs of scores that are equal, each item counting once.

    clusters: of the items

    >>> equal_pairs(np.array([0, 0, 0, 1, 1, 2]), np.array([5.0, 5.0, 0.0, 3.0, 3.0, 0.0]), seed=7).value
    0.6666666666666666
    """
    _, places = np.unique(values, return_inverse=True)
    many = int(items.max(initial=-1)) + 1
    counts = np.zeros((many, int(places.max(initial=-1)) + 1))
    np.add.at(counts, (items, places), 1)
    n = counts.sum(axis=1)
    shared = n > 1
    alike = (counts[shared] * (counts[shared] - 1)).sum(axis=1) / (n[shared] * (n[shared] - 1))
    return mean_of(alike, seed, None if clusters is None else clusters[shared], UNIT)


def change(at: Floats, values: Floats, clusters: Codes | None = None) -> Estimate:
    """Return by how much values change for each 1 of ``at``: the slope of a line by least squares.

    The interval is Student's of clusters' residuals (Liang and Zeger, Biometrika 1986; with as many degrees
    of freedom as clusters but one: Cameron, Gelbach and Miller, Review of Economics and Statistics 2008).
    Where ``at`` is 0 and 1, it is the difference of the two means.

    Args:
        at: where each value stands, shape (values,).
        values: shape (values,).
        clusters: number of each value's cluster, shape (values,); None: each is one of its own.

    >>> found = change(np.array([0.0, 0, 0, 1, 1, 1]), np.array([1.0, 2, 3, 3, 4, 5]))
    >>> found.value, found.low < 2 < found.high
    (2.0, True)
    """
    from scipy.special import stdtrit

    paired(at, values)
    n = len(values)
    places = at - at.mean() if n else at
    square = float((places**2).sum())
    if n < FEWEST or not square:
        return Estimate(None, n=n, reason="too few scores, or all at one place")
    slope = float(places @ values) / square
    residuals = values - values.mean() - slope * places
    sums = sum_clusters((places * residuals)[:, None], clusters)[:, 0]
    groups = len(sums)
    if groups < FEWEST:
        return Estimate(slope, n=n, reason="no interval: these scores stand or fall together")
    spread = float((sums**2).sum()) * groups / (groups - 1) * (n - 1) / max(n - 2, 1)
    half = float(stdtrit(groups - 1, (1 + CONFIDENCE) / 2)) * spread**0.5 / square
    return Estimate(slope, slope - half, slope + half, n)

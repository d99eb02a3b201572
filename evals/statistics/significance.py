"""Paired bootstrap tests between cells, with Holm's correction for multiple comparisons.

Questions about the same document share its difficulty. Where that is so, the clusters are what is drawn
(`evals.statistics.clusters`); without clusters each question is one. Other tests (of seeds, replicates,
judges) have their place here: each gives p-values that `holm` adjusts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics import resampling
from rag_assay.evals.statistics.clusters import Codes, sum_clusters

ALPHA = 0.05
"""Two cells are significantly different where the adjusted p is below it."""
RESAMPLES = 10_000
FEWEST_CLUSTERS = 6
"""With fewer no sign-flip test can be significant: 2^(1 - 5) > 0.05."""


class Differences(NamedTuple):
    """Paired bootstrap of each column, NaN where undefined; low, high: 95 % interval of this mean alone."""

    mean: resampling.Floats
    low: resampling.Floats
    high: resampling.Floats
    p: resampling.Floats
    error: resampling.Floats
    groups: resampling.Floats


def paired_bootstrap(
    differences: resampling.Floats,
    seed: int,
    resamples: int = RESAMPLES,
    clusters: Codes | None = None,
    *,
    binary: bool = False,
) -> Differences:
    """Test whether the mean of each column is 0, by its studentised bootstrap over rows or clusters of them.

    The clusters of rows (questions) are drawn with replacement, for all columns alike. With d the
    differences, m their mean, s its standard error (`resampling.student`) and t = m / s, the p-value is the
    share of resamples of d - m whose |t| is at least that of d (Efron and Tibshirani, An Introduction to the
    Bootstrap, 1993, ch. 16; Sakai, SIGIR 2006), with one added to either count. Where none is, Student's
    distribution tells how far below that share p is, so that many comparisons need no more resamples. The
    interval is m ± q * s, q the 95th percentile of those |t|.

    The signs of k clusters' sums that are not 0 can be chosen in 2^k ways: no paired test of theirs can tell
    more than p = 2^(1 - k), and a smaller p is raised to that. So three questions tell nothing apart.

    Args:
        differences: shape (questions, columns); NaN where either of the two has no value.
        binary: the values that differ are 0 or 1; where the bootstrap has no interval then (few differ, so
            that some resamples have no spread), Agresti and Min's (Statistics in Medicine 2005) stands in.

    >>> paired_bootstrap(np.array([[0.2, 0.0], [0.4, 0.0], [0.3, 0.0]]), seed=7).p.tolist()
    [0.25, 1.0]
    >>> values = np.array([[0.2], [0.4], [0.3], [0.1]])
    >>> paired_bootstrap(values, seed=7, clusters=np.array([0, 0, 1, 1])).p.tolist()  # as of two questions
    [0.5]
    """
    from scipy.special import stdtr  # 0.2 s, which a run with nothing to compare has not; scipy.stats: 1 s

    sums = resampling.sums_of(differences, clusters)
    groups = sums.groups
    error, t = resampling.student(sums.mean, (sums.residual**2).sum(axis=0), sums.total, groups)
    reached, bound = np.empty_like(error), np.empty_like(error)
    wide = max(1, resampling.BLOCK // resamples)
    for at in range(0, len(error), wide):
        part = slice(at, at + wide)
        ts = resampling.resample_clusters(sums.part(part), seed, resamples)
        reached[part] = (ts >= np.abs(t[part]) * (1 - 1e-9)).sum(axis=0)
        bound[part] = np.quantile(ts, 1 - ALPHA, axis=0, method="higher")
    signs = 2.0 ** (
        1 - (np.abs(sum_clusters(np.nan_to_num(differences), clusters)) > resampling.EQUAL).sum(axis=0)
    )
    tail = np.where(reached > 0, 1.0, 2 * stdtr(np.maximum(groups - 1, 1), -np.abs(t)))
    p = np.minimum(1.0, np.maximum(np.minimum((reached + 1) / (resamples + 1), tail), signs))
    p[sums.total == 0] = np.nan
    with np.errstate(invalid="ignore"):
        half = np.where(error > 0, bound * error, 0.0)
    half[(groups < 2) | ~np.isfinite(half)] = np.nan
    low, high = sums.mean - half, sums.mean + half
    if binary:
        few = (groups > 1) & (np.isnan(half) | (error == 0))
        other = _agresti_min(sums)
        low, high = np.where(few, other[0], low), np.where(few, other[1], high)
    error[groups < 2] = np.nan
    return Differences(sums.mean, low, high, p, error, np.asarray(sums.groups, np.float64))


def _agresti_min(sums: resampling.Sums) -> tuple[resampling.Floats, resampling.Floats]:
    """Return intervals of mean differences of -1, 0 and 1: Wald's, after half a pair is added to each square.

    So there are two pairs more, one of which differs, as often one way as the other; clusters and Student's
    distribution as in the bootstrap.
    """
    from scipy.special import stdtrit

    n, groups = sums.total + 2, np.maximum(sums.groups, 2)
    mean = sums.mean * sums.total / n
    residual = sums.residual + (sums.mean - mean) * sums.n
    squares = (residual**2).sum(axis=0) * groups / (groups - 1)
    added = mean**2 + ((1 - mean) ** 2 + (1 + mean) ** 2) / 2
    half = stdtrit(groups - 1, 1 - ALPHA / 2) * np.sqrt(squares + added) / n
    return np.maximum(mean - half, -1.0), np.minimum(mean + half, 1.0)


def holm(p: resampling.Floats) -> resampling.Floats:
    """Adjust p-values so that below `ALPHA` any of them is false in at most 5 % of families (Holm 1979).

    With p(1) <= … <= p(m), the i-th is raised to the largest of (m - j + 1) * p(j), j <= i, at most 1. NaN
    is no comparison and stays.

    >>> holm(np.array([0.01, np.nan, 0.04, 0.03])).round(3).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return adjusted

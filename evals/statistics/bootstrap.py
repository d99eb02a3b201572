"""Intervals of a mean over questions: Wilson's of a bounded metric, else the studentised bootstrap's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.resampling import BLOCK, Floats, Sums, resample_clusters, student, sums_of

RESAMPLES = 2_000
CONFIDENCE = 0.95
Bounds = tuple[float | None, float | None]
"""Lowest and highest possible value of a metric; None: there is none."""
UNIT: Bounds = (0.0, 1.0)


@dataclass(frozen=True)
class Interval:
    """A mean with its interval, never NaN; low, high: None with a single question or cluster."""

    mean: float
    low: float | None
    high: float | None


def bootstrap(
    values: Floats, seed: int, clusters: Codes | None = None, bounds: Bounds = (None, None)
) -> Interval | None:
    """Return the mean of one column and its 95 % interval (`intervals`), or None without a value."""
    if np.isnan(values).any():
        raise ValueError("a value that is not finite has no place in a mean")
    return intervals(values[:, None], seed, clusters, bounds)[0]


def intervals(
    table: Floats, seed: int, clusters: Codes | None = None, bounds: Bounds = (None, None)
) -> list[Interval | None]:
    """Return the mean of each column and its 95 % interval, or None where it has no value.

    Of a metric with two bounds it is `_wilson`, which holds the truth for few questions and for values at a
    bound. Otherwise it is m ± q * s: s the standard error over clusters, q the 95th percentile of |t| in
    resamples of the clusters around m (studentised bootstrap: Efron and Tibshirani 1993, ch. 12); where
    resamples without any spread leave no percentile, Student's.

    table: a row a question, shape (questions, columns); NaN where there is no value
    bounds: of the metric; where a value is outside, they are not used

    >>> intervals(np.array([[0.5, 0.5], [0.5, np.nan]]), seed=7)
    [Interval(mean=0.5, low=0.5, high=0.5), Interval(mean=0.5, low=None, high=None)]
    """
    if np.isinf(table).any():
        raise ValueError("a value that is not finite has no place in a mean")
    sums = sums_of(table, clusters)
    groups = sums.groups
    error, _ = student(sums.mean, (sums.residual**2).sum(axis=0), sums.total, groups)
    lowest, highest = (np.nan if end is None else end for end in bounds)
    width = highest - lowest
    outside = (table < lowest - 1e-9 * width) | (table > highest + 1e-9 * width)
    if np.isfinite(width) and not outside.any():
        ends = _wilson((sums.mean - lowest) / width, error / width, sums)
        low, high = (lowest + width * end for end in ends)
    else:
        from scipy.special import stdtrit

        bound = _bounds(sums, seed)
        student_t = stdtrit(np.maximum(sums.groups - 1, 1), (1 + CONFIDENCE) / 2)
        half = np.where(error > 0, np.where(np.isfinite(bound), bound, student_t) * error, 0.0)
        low, high = sums.mean - half, sums.mean + half
    return [
        None if not n else Interval(float(m), *((None, None) if few else (float(one), float(other))))
        for m, one, other, n, few in zip(sums.mean, low, high, sums.total, groups < 2, strict=True)
    ]


def _wilson(share: Floats, error: Floats, sums: Sums) -> tuple[Floats, Floats]:
    """Return Wilson's interval of means in [0, 1], with as many questions as would have their error.

    A mean of values in [0, 1] varies at most like a share (Brown, Cai and DasGupta, Statist. Science 2001);
    the design effect (Korn and Graubard, Survey Methodology 1998) is shrunk towards 1 by the weight of one
    cluster, for it would be 0 where all values are alike. The quantile is Student's.
    """
    from scipy.special import stdtrit  # 0.2 s, which a run that compares nothing has not

    total = sums.total
    sizes = np.broadcast_to(sums.n, sums.residual.shape)
    most = total**2 / np.maximum((sizes**2).sum(axis=0), 1)  # clusters of equal size that would be as good
    variance = share * (1 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(variance > 1e-15, error**2 * most / variance, 1.0)
    n = most / ((effect * np.maximum(most - 1, 0) + 1) / np.maximum(most, 1))
    quantile = stdtrit(np.maximum(1.0, most - 1), (1 + CONFIDENCE) / 2)
    z = quantile**2 / np.maximum(n, 1e-9)
    centre = (share + z / 2) / (1 + z)
    half = np.sqrt(np.maximum(z * variance + z**2 / 4, 0.0)) / (1 + z)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def _bounds(sums: Sums, seed: int) -> Floats:
    wide = max(1, BLOCK // RESAMPLES)
    of_columns = (sums.part(slice(at, at + wide)) for at in range(0, len(sums.mean), wide))
    drawn = (resample_clusters(some, seed, RESAMPLES) for some in of_columns)
    parts = [np.quantile(one, CONFIDENCE, axis=0, method="higher") for one in drawn]
    return np.concatenate(parts) if parts and len(sums.residual) else np.full(len(sums.mean), np.nan)

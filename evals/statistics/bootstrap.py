"""Intervals of a mean over questions: the studentised bootstrap's, and Wilson's of a share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evals.statistics.clusters import Codes
from evals.statistics.resampling import BLOCK, Floats, Sums, resampled, student, sums_of

RESAMPLES = 2_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """Mean of the values that there are, with the bounds of its interval; never NaN.

    low, high: None where there is one question, or one cluster of them, alone
    """

    mean: float
    low: float | None
    high: float | None


def bootstrap(values: Floats, seed: int, clusters: Codes | None = None) -> Interval | None:
    """Return the mean of one column and its 95 % interval (`intervals`), or None without a value.

    >>> bootstrap(np.array([0.5, 0.5, 0.5]), seed=7)
    Interval(mean=0.5, low=0.5, high=0.5)
    """
    if np.isnan(values).any():
        raise ValueError("a value that is not finite has no place in a mean")
    return intervals(values[:, None], seed, clusters)[0]


def intervals(table: Floats, seed: int, clusters: Codes | None = None) -> list[Interval | None]:
    """Return the mean of each column and its 95 % interval, or None where it has no value.

    The interval is m ± q * s: s the standard error over clusters, q the 95th percentile of |t| in resamples
    of the clusters around m (studentised bootstrap: Efron and Tibshirani 1993, ch. 12; of means it is nearer
    to 95 % than percentiles are, Hesterberg, The American Statistician 2015). A share, whose values are all
    0 or 1, has Wilson's interval (Brown, Cai and DasGupta, Statistical Science 2001) with as many questions
    as would have its standard error without clusters (Korn and Graubard, Survey Methodology 1998) and
    Student's quantile. Wilson's is that of other values from 0 to 1, too, where resamples without any spread
    leave no percentile: their variance is at most m * (1 - m). Of values without bounds Student's is it then.

    Args:
        table: a row a question, shape (questions, columns); NaN where there is no value.
        seed: the study's; columns are resampled alike, so that their intervals compare.
        clusters: number of each question's cluster, shape (questions,); None: each is one of its own.

    >>> intervals(np.array([[0.5, 0.5], [0.5, np.nan]]), seed=7)
    [Interval(mean=0.5, low=0.5, high=0.5), Interval(mean=0.5, low=None, high=None)]
    """
    if np.isinf(table).any():
        raise ValueError("a value that is not finite has no place in a mean")
    from scipy.special import stdtrit  # 0.2 s, which a run that compares nothing has not

    sums = sums_of(table, clusters)
    groups = sums.groups
    error, _ = student(sums.mean, (sums.residual**2).sum(axis=0), sums.total, groups)
    quantile = stdtrit(np.maximum(groups - 1, 1), (1 + CONFIDENCE) / 2)
    half = _bounds(sums, seed) * np.where(error > 0, error, 0.0)
    low, high = sums.mean - half, sums.mean + half
    there = ~np.isnan(table)
    shares = (~there | (table == 0) | (table == 1)).all(axis=0)
    unit = (~there | ((table >= 0) & (table <= 1))).all(axis=0)
    lost = ~np.isfinite(half) & (error > 0)
    wilson = _wilson(sums.mean, error, np.where(shares, sums.total, groups), groups, quantile)
    low = np.where(shares | (lost & unit), wilson[0], np.where(lost, sums.mean - quantile * error, low))
    high = np.where(shares | (lost & unit), wilson[1], np.where(lost, sums.mean + quantile * error, high))
    return [
        None if not n else Interval(float(m), *((None, None) if few else (float(one), float(other))))
        for m, one, other, n, few in zip(sums.mean, low, high, sums.total, groups < 2, strict=True)
    ]


def _bounds(sums: Sums, seed: int) -> Floats:
    """Return the 95th percentile of |t| of each column."""
    wide = max(1, BLOCK // RESAMPLES)
    parts = [
        np.quantile(
            resampled(sums.part(slice(at, at + wide)), seed, RESAMPLES), CONFIDENCE, axis=0, method="higher"
        )
        for at in range(0, len(sums.mean), wide)
    ]
    return np.concatenate(parts) if parts and len(sums.residual) else np.full(len(sums.mean), np.nan)


def _wilson(
    share: Floats, error: Floats, most: Floats, groups: Floats, quantile: Floats
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return Wilson's interval with the number of questions that has this error, at most so many.

    Where all are alike there is no error: each cluster counts for one question then.
    """
    variance = share * (1 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.where(error > 0, np.minimum(most, 1 + variance / error**2), groups)
    z = quantile**2 / np.maximum(n, 1e-9)
    centre = (share + z / 2) / (1 + z)
    half = np.sqrt(np.maximum(z * variance + z**2 / 4, 0.0)) / (1 + z)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)

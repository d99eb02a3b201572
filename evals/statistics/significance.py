"""Paired bootstrap tests between cells, with Holm's correction for multiple comparisons.

Other tests (of seeds, replicates, judges) have their place here: each gives p-values that `holm` adjusts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ALPHA = 0.05
"""Two cells are told apart where the adjusted p is below it."""
RESAMPLES = 10_000
_BLOCK = 2_000_000  # numbers held at once in each table of a block: some 16 MB
_EQUAL = 1e-12  # smaller differences come from the order of a sum


class Differences(NamedTuple):
    """What the paired bootstrap says of each column, as arrays of its shape; NaN where nothing can be said.

    mean: of the differences that there are
    low, high: 95 % interval of the mean, of this column alone
    p: two-sided, not adjusted
    """

    mean: Floats
    low: Floats
    high: Floats
    p: Floats


def paired_bootstrap(differences: Floats, seed: int, resamples: int = RESAMPLES) -> Differences:
    """Test whether the mean of each column is 0, by its studentised bootstrap over the rows.

    The rows (questions) are drawn with replacement, for all columns alike. With d the differences, m their
    mean, s their standard deviation and n their number, t = m / (s / sqrt(n)); the p-value is the share of
    resamples of d - m whose |t| is at least that of d (Efron and Tibshirani, An Introduction to the
    Bootstrap, 1993, ch. 16; Sakai, SIGIR 2006), with one added to either count. Where none is, Student's
    distribution tells how far below that share p is, so that many comparisons need no more resamples. The
    interval is m ± q * s / sqrt(n), q the 95th percentile of those |t|.

    The signs of k differences that are not 0 can be chosen in 2^k ways: no paired test of theirs can tell
    more than p = 2^(1 - k), and a smaller p is raised to that. So three questions tell nothing apart.

    Args:
        differences: shape (questions, columns); NaN where either of the two has no value.
        seed: the study's.
        resamples: how many; memory does not grow with the questions or columns, but with these.

    >>> paired_bootstrap(np.array([[0.2, 0.0], [0.4, 0.0], [0.3, 0.0]]), seed=7).p.tolist()
    [0.25, 1.0]
    """
    from scipy.special import stdtr  # 0.2 s, which a run with nothing to compare has not; scipy.stats: 1 s

    there = ~np.isnan(differences)
    n = there.sum(axis=0).astype(np.float64)
    filled = np.where(there & (np.abs(differences) > _EQUAL), differences, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = filled.sum(axis=0) / n
    centred = np.where(there, filled - mean, 0.0)
    centred[:, np.abs(centred).max(axis=0, initial=0.0) <= _EQUAL * np.abs(mean)] = 0.0
    error, t = _student(mean, (centred**2).sum(axis=0), n)
    reached, bound = np.empty_like(mean), np.empty_like(mean)
    wide = max(1, _BLOCK // resamples)
    for at in range(0, len(mean), wide):
        part = slice(at, at + wide)
        ts = _resampled(centred[:, part], there[:, part], seed, resamples)
        reached[part] = (ts >= np.abs(t[part]) * (1 - 1e-9)).sum(axis=0)
        bound[part] = np.quantile(ts, 1 - ALPHA, axis=0, method="higher")
    signs = 2.0 ** (1 - (filled != 0).sum(axis=0))
    tail = np.where(reached > 0, 1.0, 2 * stdtr(np.maximum(n - 1, 1), -np.abs(t)))
    p = np.minimum(1.0, np.maximum(np.minimum((reached + 1) / (resamples + 1), tail), signs))
    with np.errstate(invalid="ignore"):
        half = np.where(error > 0, bound * error, 0.0)
    half[(n < 2) | ~np.isfinite(half)] = np.nan
    p[n == 0] = np.nan
    return Differences(mean, mean - half, mean + half, p)


def _resampled(centred: Floats, there: npt.NDArray[np.bool_], seed: int, resamples: int) -> Floats:
    """Return |t| of every resample and column."""
    largest = np.abs(centred).max(axis=0, initial=0.0)
    squares, parts = centred**2, []
    weights = None if there.all() else there.astype(np.float64)
    for counts in _draws(len(centred), seed, resamples):
        n = np.full((1, 1), float(len(centred))) if weights is None else counts @ weights
        means = (counts @ centred) / np.maximum(n, 1)
        means[np.abs(means) <= _EQUAL * largest] = 0.0
        spread = counts @ squares - n * means**2
        spread[spread <= _EQUAL * largest**2] = 0.0
        parts.append(np.abs(_student(means, spread, n)[1]))
    return np.concatenate(parts)


def _student(mean: Floats, squares: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return the standard error of means and Student's t, from the sums of squares around them.

    Without any spread t is infinite, and 0 where the mean is 0, too.
    """
    error = np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return error, np.where(mean == 0, 0.0, mean / error)


def _draws(rows: int, seed: int, resamples: int) -> Iterator[Floats]:
    """Yield how often each row is drawn, some resamples at a time: shape (resamples, rows)."""
    chance = np.random.default_rng(seed)
    at_once = max(1, _BLOCK // max(rows, 1))
    for begin in range(0, resamples, at_once):
        some = min(at_once, resamples - begin)
        drawn = chance.integers(0, rows, size=(some, rows)) + rows * np.arange(some)[:, None]
        yield np.bincount(drawn.ravel(), minlength=some * rows).reshape(some, rows).astype(np.float64)


def holm(p: Floats) -> Floats:
    """Adjust p-values so that below `ALPHA` none of them is false but in 5 % of families (Holm 1979).

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

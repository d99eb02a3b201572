"""Effects of an axis and interactions of two: means of levels over equal contexts, and paired differences."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.clusters import Codes, sum_clusters
from rag_assay.evals.statistics.resampling import EQUAL, Floats, resample_clusters, student, sums_of
from rag_assay.evals.statistics.significance import ALPHA, Bools, Standing, contrasts, holm, paired_bootstrap


class Largest(NamedTuple):
    """The difference of differences that is furthest from 0 by its own error.

    value: what level `one` gains at `here` beyond its average gain; low, high: its 95 % interval
    """

    one: int
    here: int
    value: float
    low: float
    high: float


class BestAt(NamedTuple):
    """The best level of the first axis at one level of the second, against the best on the whole.

    p: of their difference, adjusted for the levels of both axes; NaN where they are one
    """

    level: int
    difference: float
    low: float
    high: float
    p: float

    @property
    def apart(self) -> bool:
        return bool(self.p < ALPHA)


class Interaction(NamedTuple):
    """Two axes together.

    means, low, high: of each pair of levels, with 95 % intervals, shape (levels of the first, of the second)
    p: that no difference between levels of one axis depends on the other; not adjusted
    overall: the best level of the first axis on the whole; best: at each level of the second
    """

    means: Floats
    p: float
    largest: Largest
    overall: int
    best: tuple[BestAt, ...]
    n: int
    low: Floats
    high: Floats


def interaction(
    values: Floats, seed: int, clusters: Codes | None = None, *, higher_is_better: bool = True
) -> Interaction | None:
    """Test whether two axes act independently of each other; None where no question has a value.

    Of a question, with y the value at levels i and j and dots for means, y_ij - y_i. - y_.j + y_.. is 0
    where axes only add up. The largest |t| of their means is compared with that of resamples around them
    (max-T: Westfall and Young, Resampling-Based Multiple Testing, 1993), so that one p-value stands for all
    pairs of levels.

    values: of each question the mean over equal contexts, shape (questions, first, second), NaN where there
        is none (`over_contexts`); clusters: of the questions

    >>> chance = np.random.default_rng(7)
    >>> added = chance.normal(size=(60, 1, 1)) + np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> crossed = added + np.array([[0.0, 1.0], [1.0, 0.0]]) + chance.normal(scale=0.3, size=(60, 2, 2))
    >>> round(interaction(added, seed=7).p, 3), interaction(crossed, seed=7).p < 0.001
    (1.0, True)
    """
    n = int((~np.isnan(values).any(axis=(1, 2))).sum())
    if not n:
        return None
    rows, columns, whole = (values.mean(axis=axis, keepdims=True) for axis in (2, 1, (1, 2)))
    contrasts = (values - rows - columns + whole).reshape(len(values), -1)
    contrasts[np.abs(contrasts) <= EQUAL] = 0.0
    means = np.nanmean(values, axis=0)
    p, at = _max_t(contrasts, seed, clusters)
    found = paired_bootstrap(contrasts[:, [at]], seed, RESAMPLES, clusters)
    one, here = divmod(at, values.shape[2])
    largest = Largest(one, here, float(found.mean[0]), float(found.low[0]), float(found.high[0]))
    sign = 1 if higher_is_better else -1
    overall = int(np.argmax(sign * means.mean(axis=1)))
    best = _best_at(values, means, overall, seed, clusters, sign)
    alone = paired_bootstrap(values.reshape(len(values), -1), seed, RESAMPLES, clusters)
    low, high = (ends.reshape(means.shape) for ends in (alone.low, alone.high))
    return Interaction(means, p, largest, overall, best, n, low, high)


def _max_t(contrasts: Floats, seed: int, clusters: Codes | None) -> tuple[float, int]:
    sums = sums_of(contrasts, clusters)
    t = np.abs(student(sums.mean, (sums.residual**2).sum(axis=0), sums.total, sums.groups)[1])
    t[np.isnan(t)] = 0.0
    at = int(np.argmax(t))
    drawn = resample_clusters(sums, seed, RESAMPLES)
    reached = int((np.nan_to_num(drawn).max(axis=1) >= t[at] * (1 - 1e-9)).sum())
    # The signs of k clusters that are not 0 can be chosen in 2^k ways: no test of theirs can tell more.
    differing = np.abs(sum_clusters(np.nan_to_num(contrasts[:, [at]]), clusters)) > EQUAL
    signs = 2.0 ** (1 - int(differing.sum()))
    return float(min(1.0, max((reached + 1) / (RESAMPLES + 1), signs))), at


def _best_at(
    values: Floats, means: Floats, overall: int, seed: int, clusters: Codes | None, sign: int
) -> tuple[BestAt, ...]:
    levels = [int(np.argmax(sign * column)) for column in means.T]
    apart = np.stack([values[:, one, at] - values[:, overall, at] for at, one in enumerate(levels)], axis=1)
    found = paired_bootstrap(apart, seed, RESAMPLES, clusters)
    # The best level is one of several that it was chosen from (Bonferroni), at each level of the other axis.
    chosen = np.minimum(1.0, found.p * (values.shape[1] - 1))
    p = holm(np.where([one == overall for one in levels], np.nan, chosen))
    figures = zip(found.mean.tolist(), found.low.tolist(), found.high.tolist(), p.tolist(), strict=True)
    return tuple(BestAt(one, *row) for one, row in zip(levels, figures, strict=True))


RESAMPLES = 2_000
"""Fewer than for cells: there are many tables, and p-values below them come from Student's distribution."""


class Levels(NamedTuple):
    """The levels of an axis, arrays of one number a level, NaN where there is none.

    mean: over questions, of the mean over contexts, with its 95 % interval
    difference: from the best level on the same questions, with its interval; 0 of the best
    p: of that difference, adjusted for the levels (`contrasts`)
    apart: significantly different from the best level, and not within the margin
    within: the difference from it is shown to be smaller than the margin
    detectable: the true difference that would be found four times out of five
    """

    mean: Floats
    low: Floats
    high: Floats
    difference: Floats
    difference_low: Floats
    difference_high: Floats
    p: Floats
    best: int
    n: int
    detectable: Floats
    apart: Bools
    within: Bools

    def standing(self, at: int) -> Standing:
        return "within" if self.within[at] else "worse" if self.apart[at] else "tied"


def over_contexts(table: Floats) -> Floats:
    """Average over the contexts in which a question has a value of every level; NaN where there is none.

    table: shape (questions, contexts, …levels), NaN for a missing value

    >>> over_contexts(np.array([[[1.0, 3.0], [5.0, np.nan]]])).tolist()
    [[1.0, 3.0]]
    """
    axes = tuple(range(2, table.ndim))
    whole = ~np.isnan(table).any(axis=axes, keepdims=True)
    with np.errstate(invalid="ignore"):
        found: Floats = np.where(whole, table, 0.0).sum(axis=1) / whole.sum(axis=1)
    return found


def effect(
    values: Floats,
    seed: int,
    clusters: Codes | None = None,
    *,
    higher_is_better: bool = True,
    margin: float | None = None,
) -> Levels | None:
    """Compare the levels of an axis by their means over the questions; None where no question has a value.

    values: of each question and level the mean over equal contexts, shape (questions, levels); a row is NaN
        where they have none (`over_contexts`); clusters: of the questions

    >>> values = np.array([[0.2, 0.6], [0.3, 0.5], [0.1, 0.8], [0.2, 0.5], [0.3, 0.7], [0.1, 0.4]])
    >>> found = effect(values, seed=7)
    >>> found.best, found.difference.round(3).tolist(), bool(found.p[0] < 0.05)
    (1, [-0.383, 0.0], True)
    """
    n = int((~np.isnan(values).any(axis=1)).sum())
    if not n:
        return None
    means = np.nanmean(values, axis=0)
    best = int(np.argmax(means if higher_is_better else -means))
    others = [level for level in range(values.shape[1]) if level != best]
    alone = paired_bootstrap(values, seed, RESAMPLES, clusters)
    stated = math.nan if margin is None else margin
    less = values[:, others] - values[:, [best]]
    apart = contrasts(less, seed, clusters, resamples=RESAMPLES, margin=stated)
    p, least = np.full((2, len(means)), np.nan)
    p[others], least[others] = apart.p, apart.detectable
    rows = np.zeros((3, len(means)))
    rows[:, others] = [apart.differences.mean, apart.differences.low, apart.differences.high]
    told = np.zeros((2, len(means)), np.bool_)
    told[:, others] = apart.apart, apart.within
    figures = (rows[0], rows[1], rows[2], p, best, n, least, told[0], told[1])
    return Levels(means, alone.low, alone.high, *figures)

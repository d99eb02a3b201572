"""The effect of an axis: means of its levels over equal contexts, and their paired differences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.clusters import Codes
from rag_assay.evals.statistics.contrasts import contrasts
from rag_assay.evals.statistics.resampling import Floats
from rag_assay.evals.statistics.significance import ALPHA, paired_bootstrap

RESAMPLES = 2_000
"""Fewer than for cells: there are many tables, and p-values below them come from Student's distribution."""


class Levels(NamedTuple):
    """What is known of the levels of an axis, as arrays of one number a level; NaN where there is none.

    mean: over the questions with a value, of the mean over the contexts; low, high: its 95 % interval
    difference: mean difference from the best level on the same questions, with its interval; 0 of the best
    p: of that difference by two tests, adjusted for the levels (`contrasts`); NaN of the best
    best: which level has the best mean
    n: questions with a value
    detectable: the true difference from the best that would be found four times out of five; NaN of the best
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

    @property
    def apart(self) -> list[bool]:
        """Whether each level is significantly different from the best one."""
        return [bool(p < ALPHA) for p in self.p]


def over_contexts(table: Floats) -> Floats:
    """Average over the contexts in which a question has a value of every level; NaN where there is none.

    Of each question the levels are so compared in the same contexts, though some cells lack its value.

    Args:
        table: shape (questions, contexts, …levels), NaN for a missing value.

    >>> over_contexts(np.array([[[1.0, 3.0], [5.0, np.nan]]])).tolist()
    [[1.0, 3.0]]
    """
    axes = tuple(range(2, table.ndim))
    whole = ~np.isnan(table).any(axis=axes, keepdims=True)
    with np.errstate(invalid="ignore"):
        found: Floats = np.where(whole, table, 0.0).sum(axis=1) / whole.sum(axis=1)
    return found


def effect(
    values: Floats, seed: int, clusters: Codes | None = None, *, higher_is_better: bool = True
) -> Levels | None:
    """Compare the levels of an axis by their means over the questions; None where no question has a value.

    The best level is chosen on the questions that it is then compared on, as the leader of a leaderboard is:
    at most one table in twenty tells the level that is truly best apart from another, and calls that better.

    Args:
        values: of each question and level the mean over equal contexts, shape (questions, levels); a row is
            NaN where they have none (`over_contexts`).
        seed: the study's.
        clusters: of the questions, shape (questions,).
        higher_is_better: whether the best mean is the largest.

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
    apart = contrasts(values[:, others] - values[:, [best]], seed, clusters, resamples=RESAMPLES)
    p, least = np.full((2, len(means)), np.nan)
    p[others], least[others] = apart.p, apart.detectable
    rows = np.zeros((3, len(means)))
    rows[:, others] = [apart.differences.mean, apart.differences.low, apart.differences.high]
    return Levels(means, alone.low, alone.high, rows[0], rows[1], rows[2], p, best, n, least)

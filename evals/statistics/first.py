"""How likely each cell is the best: how often it is first when the questions are drawn again."""

from __future__ import annotations

import numpy as np

from evals.statistics.clusters import Codes, summed
from evals.statistics.resampling import Floats, draws
from evals.statistics.significance import RESAMPLES

_ALIKE = 1e-9  # of the means' size: sums of the same numbers in another order differ in the last digits


def first_shares(
    table: Floats,
    seed: int,
    higher_is_better: bool = True,
    resamples: int = RESAMPLES,
    clusters: Codes | None = None,
) -> Floats:
    """Return the share of resamples of the questions in which each column has the best mean; ties are split.

    It is the bootstrap's estimate of the probability that the cell would be first on other questions of the
    kind (Hall and Miller, Annals of Statistics 2009, of resampled ranks). It says nothing of by how much.

    Args:
        table: values, shape (questions, cells); NaN where a cell has none.
        seed: the study's.
        higher_is_better: of the metric.
        resamples: how many.
        clusters: number of each question's cluster, shape (questions,); None: each is one of its own.

    >>> first_shares(np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]), seed=7).tolist()
    [0.5, 0.0, 0.5]
    """
    if not table.size:
        return np.full(table.shape[1], np.nan)
    there = ~np.isnan(table)
    sums, n = summed(np.where(there, table, 0.0), clusters), summed(there.astype(np.float64), clusters)
    sign, shares = (1.0 if higher_is_better else -1.0), np.zeros(table.shape[1])
    for counts in draws(len(sums), seed, resamples):
        drawn = counts @ n
        means = np.where(drawn > 0, sign * (counts @ sums) / np.maximum(drawn, 1), -np.inf)
        best = means.max(axis=1, keepdims=True)
        first = means >= best - _ALIKE * np.abs(best)
        shares += (first / first.sum(axis=1, keepdims=True)).sum(axis=0)
    return np.asarray(shares / resamples)

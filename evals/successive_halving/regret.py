"""What dropping cells could have missed: how likely one is better than the winner, and by how much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_assay.evals.statistics.comparison import table_of
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.statistics.resampling import sums_of
from rag_assay.evals.statistics.significance import ALPHA, paired_bootstrap
from rag_assay.evals.successive_halving.elimination import RESAMPLES, Values


class CellRegret(NamedTuple):
    """A dropped cell against the winner, on the questions that it was asked.

    difference: mean of its values less the winner's, in the metric's own direction; low, high: 95 % interval
    chance: that it is truly better, if differences of any size were as likely before
    """

    cell: str
    n: int
    difference: float | None
    low: float | None
    high: float | None
    chance: float


class Regret(NamedTuple):
    """What a race could have missed.

    chance: that any of the dropped cells is truly better than the winner, at most
    most: by how much at most, at a confidence of 95 % for all of them together; None: not known
    """

    cells: list[CellRegret]
    chance: float
    most: float | None


def regret_of(
    dropped: Sequence[str],
    winner: str,
    values: Values,
    seed: int,
    clusters: Clustering = ALONE,
    *,
    higher_is_better: bool = True,
    comparisons: int = 1,
) -> Regret:
    """Hold each dropped cell against the winner on the questions that both have a value of.

    With d the mean difference over G clusters of questions, s its standard error and T Student's distribution
    of G - 1 degrees of freedom, the chance that a cell is truly better is T(d / s), the posterior of a flat
    prior (Box and Tiao, Bayesian Inference in Statistical Analysis, 1973, ch. 2). That any of them is has at
    most the sum of their chances (Boole). By how much at most is the largest of d + t * s, t the quantile of
    1 - 0.05 / comparisons (Bonferroni): a cell was dropped at one of several looks because it looked bad
    there, so that its bound must hold at all of them.

    Args:
        dropped: the cells.
        winner: the cell that leads at the end.
        values: of all of them.
        seed: of the bootstrap that gives the intervals.
        comparisons: cells times looks of the race.

    >>> values = {"a": {str(n): 0.8 for n in range(12)}, "b": {str(n): (n % 2) * 0.4 for n in range(12)}}
    >>> found = regret_of(["b"], "a", values, 7, comparisons=3)
    >>> found.cells[0].n, round(found.cells[0].difference, 2), found.chance < 0.001, found.most
    (12, -0.6, True, 0.0)
    """
    if not dropped:
        return Regret([], 0.0, None)
    from scipy.special import stdtr, stdtrit

    sign = 1.0 if higher_is_better else -1.0
    questions = sorted(values.get(winner, {}))
    table = table_of({**{cell: {} for cell in dropped}, **values}, [winner, *dropped], questions)
    apart = sign * (table[:, 1:] - table[:, :1])
    codes = clusters.codes(questions)
    binary = bool((np.isnan(table) | (table == 0) | (table == 1)).all())
    found = paired_bootstrap(apart, seed, RESAMPLES, codes, binary=binary)
    groups = np.maximum(sums_of(apart, codes).groups, 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(found.mean == 0, np.where(found.error == 0, -np.inf, 0.0), found.mean / found.error)
    chances = np.where(np.isnan(t), 1.0, stdtr(groups - 1, t))
    ends = found.mean + stdtrit(groups - 1, 1 - ALPHA / max(comparisons, 1)) * found.error
    rows = []
    for at, cell in enumerate(dropped):
        low, high = sorted((sign * found.low[at], sign * found.high[at]))
        n, mean = int((~np.isnan(apart[:, at])).sum()), _number(sign * found.mean[at])
        rows.append(CellRegret(cell, n, mean, _number(low), _number(high), float(chances[at])))
    most = None if np.isnan(ends).any() else max(0.0, float(ends.max()))
    return Regret(rows, min(1.0, float(chances.sum())), most)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

"""A look at a race: which cells are dropped after a rung, by a test or because the budget demands it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from rag_assay.evals.statistics.comparison import finite_or_none, table_of
from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.statistics.resampling import sums_of
from rag_assay.evals.statistics.significance import ALPHA, contrasts, paired_bootstrap
from rag_assay.warehouse.schemas import MIN_COVERAGE


class CellRegret(NamedTuple):
    """A dropped cell against the winner: mean difference, 95 % interval, chance that it is truly better"""

    cell: str
    n: int
    difference: float | None
    low: float | None
    high: float | None
    chance: float


class Regret(NamedTuple):
    """What a race could have missed: chance that any is better; most: by how much, at 95 % for all"""

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
        n, mean = int((~np.isnan(apart[:, at])).sum()), finite_or_none(sign * found.mean[at])
        rows.append(CellRegret(cell, n, mean, finite_or_none(low), finite_or_none(high), float(chances[at])))
    most = None if np.isnan(ends).any() else max(0.0, float(ends.max()))
    return Regret(rows, min(1.0, float(chances.sum())), most)


RESAMPLES = 2_000
"""Of each test of a look: levels are not smaller than what they can tell, and p below them is Student's."""
Rule = Literal["significance", "budget"]
Values = Mapping[str, Mapping[str, float]]
"""Cell -> question -> its value, where it has one."""


class EliminationRules(NamedTuple):
    """By what a race drops cells: level of a test, cells the budget keeps at most, and a margin that is no
    loss
    """

    level: float
    seed: int
    higher_is_better: bool = True
    keep: int | None = None
    margin: float = 0.0


class EliminatedCell(NamedTuple):
    """A dropped cell: difference to the leader with its 95 % interval, and the adjusted p of the tests"""

    cell: str
    rule: Rule
    n: int
    leader: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None


class EliminationRound(NamedTuple):
    """What a look found; unmeasured: cells that lack values of too many questions."""

    leader: str | None
    left: list[str]
    dropped: list[EliminatedCell]
    unmeasured: list[str]


def look(
    cells: Sequence[str], values: Values, rules: EliminationRules, clusters: Clustering = ALONE
) -> EliminationRound:
    """Say which cells are dropped by what is known of them so far.

    The leader has the best mean. A cell is dropped by a test where its paired difference to the leader is
    significant at the look's level, by a bootstrap and a permutation test over clusters of questions that are
    adjusted for all cells and for the choice of the leader (`evals.statistics.significance`), and larger than
    the margin: a cheaper cell within it may be recommended. Where more are left than the budget allows, the
    worst means are dropped beside them. A cell without values of 98 % of the questions is not compared and
    stays: that it failed is no reason to drop it.

    >>> good, poor = {str(n): 0.9 + n / 500 for n in range(20)}, {str(n): n % 3 / 5 for n in range(20)}
    >>> found = look(["a", "b"], {"a": good, "b": poor}, EliminationRules(0.05, 7))
    >>> found.leader, found.left, [one.cell for one in found.dropped]
    ('a', ['a'], ['b'])
    """
    questions = sorted({name for cell in cells for name in values.get(cell, ())})
    able = [one for one in cells if questions and len(values.get(one, ())) >= MIN_COVERAGE * len(questions)]
    unmeasured = [one for one in cells if one not in able]
    if len(able) < 2:
        return EliminationRound(able[0] if able else None, list(cells), [], unmeasured)
    sign = 1.0 if rules.higher_is_better else -1.0
    table = sign * table_of(values, able, questions)
    means = np.nanmean(table, axis=0)
    leader = int(np.lexsort((np.argsort(np.argsort(able)), -means))[0])
    others = [at for at in range(len(able)) if at != leader]
    unique, which = np.unique((table[:, others] - table[:, [leader]]).T, axis=0, return_inverse=True)
    binary = bool((np.isnan(table) | (table == 0) | (np.abs(table) == 1)).all())
    found = contrasts(unique.T, rules.seed, clusters.codes(questions), binary=binary, resamples=RESAMPLES)
    n = (~np.isnan(unique.T)).sum(axis=0)
    dropped: dict[str, EliminatedCell] = {}
    for at, column in zip(others, which.ravel().tolist(), strict=True):
        ends = sorted(sign * end for end in (found.differences.low[column], found.differences.high[column]))
        numbers = map(finite_or_none, (sign * found.differences.mean[column], *ends, found.p[column]))
        dropped[able[at]] = EliminatedCell(able[at], "significance", int(n[column]), able[leader], *numbers)
    gone = {
        name
        for name, one in dropped.items()
        if one.p is not None and one.p < rules.level and abs(one.difference or 0.0) > rules.margin
    }
    by_rank = [
        able[at] for at in sorted(others, key=lambda at: (-means[at], able[at])) if able[at] not in gone
    ]
    room = len(by_rank) if rules.keep is None else max(0, rules.keep - 1 - len(unmeasured))
    worst = by_rank[room:]
    told = [one for name, one in dropped.items() if name in gone]
    told += [dropped[name]._replace(rule="budget") for name in worst]
    left = [one for one in cells if one not in gone and one not in worst]
    return EliminationRound(able[leader], left, told, unmeasured)

"""The effects of the axes as rows, in the columns of the leaderboard."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from rag_assay.evals.reporting.context_curves import BUDGETS
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.effects import AxisEffect, AxisPair, effects
from rag_assay.evals.statistics.significance import ALPHA

Row = dict[str, Any]
EFFECT, INTERACTION, CONTEXT = "effect", "interaction", "context"


def effect_rows(data: ReportData) -> list[Row]:
    """Return a row a level of each axis and metric, and one a pair of levels of each pair of axes.

    `effect:METRIC` has the level in the column of its axis and nothing on the others: `value` is the mean
    over equal contexts, `leader` the best level, `difference` and `p` are to that. `subset` also names the
    group of questions where it is of one (`all · type: fact`). `interaction:METRIC` has two levels: `value`
    is their mean, `p` that of the pair of axes, equal in all of its rows. `context:N` is the share
    of the gold in N tokens of a ranking (`evals.reporting.context_curves`).
    """
    found = effects(data)
    rows: list[Row] = []
    for table in found.axes:
        for one in table.effects:
            rows += _levels(one, one.subset)
        for group in table.groups:
            rows += _levels(group.effect, f"{group.effect.subset} · {group.column}: {group.group}")
    for pair in found.pairs:
        rows += _pairs(pair)
    return rows + _at_lengths(data)


def _at_lengths(data: ReportData) -> list[Row]:
    """Return a row a ranking and length of context (`context:1000`), by one of its cells."""
    if data.contexts is None:
        return []
    means = data.contexts.group_by("cell").agg(pl.len(), *(pl.col(f"at_{n}").mean() for n in BUDGETS))
    board = data.leaderboard.select("cell", "chunking", "embedder", "retriever").unique("cell")
    return [
        {
            **{name: row[name] for name in board.columns},
            "subset": "all",
            "metric": f"{CONTEXT}:{tokens}",
            "value": row[f"at_{tokens}"],
            "n": row["len"],
        }
        for row in means.join(board, on="cell").sort("cell").iter_rows(named=True)
        for tokens in BUDGETS
    ]


def _levels(effect: AxisEffect, subset: str) -> list[Row]:
    found = effect.found
    return [
        {
            "subset": subset,
            effect.axis: level,
            "metric": f"{EFFECT}:{effect.metric.name}",
            "value": _number(found.mean[at]),
            "n": found.n,
            "low": _number(found.low[at]),
            "high": _number(found.high[at]),
            "leader": effect.best,
            "difference": _number(found.difference[at]),
            "difference_low": None if at == found.best else _number(found.difference_low[at]),
            "difference_high": None if at == found.best else _number(found.difference_high[at]),
            "p": _number(found.p[at]),
            "tied": not found.apart[at],
        }
        for at, level in enumerate(effect.levels)
    ]


def _pairs(pair: AxisPair) -> list[Row]:
    one, other = pair.axes
    return [
        {
            "subset": pair.subset,
            one: level,
            other: here,
            "metric": f"{INTERACTION}:{pair.metric.name}",
            "value": _number(pair.found.means[i, j]),
            "n": pair.found.n,
            "p": pair.p,
            "tied": not pair.p < ALPHA,
        }
        for i, level in enumerate(pair.levels[0])
        for j, here in enumerate(pair.levels[1])
    ]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)

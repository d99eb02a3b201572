"""Cells at an equal length of context, and which of them buy most quality with it, or with time and money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from rag_assay.evals.metrics.context_curve import CHARACTERS_A_TOKEN
from rag_assay.evals.reporting.context_curves import BUDGETS, DEPTHS
from rag_assay.evals.reporting.costs import Cost
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import count, listed
from rag_assay.evals.reporting.standings import CellStanding, Result, Subset, subsets
from rag_assay.evals.reporting.values import Values
from rag_assay.evals.statistics.effects import Levels, effect, over_contexts
from rag_assay.evals.statistics.full_crossing import Crossing, find_crossing
from rag_assay.evals.statistics.pareto import front

AXES = ("chunking", "embedder", "retriever")


@dataclass(frozen=True, eq=False)
class AtBudget:
    """The levels of an axis in equally long contexts; they are in the order of `AtContext.levels`."""

    tokens: int
    found: Levels


@dataclass(frozen=True, eq=False)
class AtContext:
    """The levels of an axis at each budget of tokens."""

    axis: str
    levels: tuple[str, ...]
    crossing: Crossing
    budgets: tuple[AtBudget, ...]


@dataclass(frozen=True)
class Bought:
    """A cell, what it costs, and its quality.

    depth: how many passages are read, where the cost is their length
    low, high: interval of the quality
    tied: it leads by this quality, or is tied with what does
    """

    label: str
    cost: float
    value: float
    depth: int | None = None
    low: float | None = None
    high: float | None = None
    tied: bool = False


@dataclass(frozen=True)
class Front:
    """What no cell beats: dearer ones are better, better ones dearer.

    quality, cost: what they are, in words; unit: of the cost
    all: every point, on the front or not
    """

    quality: str
    cost: str
    unit: str
    points: tuple[Bought, ...]
    all: tuple[Bought, ...]

    @property
    def of(self) -> int:
        """How many points there are."""
        return len(self.all)


@dataclass(frozen=True, eq=False)
class Contexts:
    """What there is to say of lengths of context.

    quality: evidence coverage, or recall where whole documents are gold
    """

    quality: str
    axes: tuple[AtContext, ...]
    front: Front | None


@lru_cache(maxsize=2)  # a report shows them on its page, in its rows and on the terminal
def contexts(data: ReportData) -> Contexts | None:
    """Return the axes at equal lengths of context, and the front of all rankings cut at each depth.

    None where no ranking has gold to find, or there is but one.
    """
    curves = data.contexts
    if curves is None or curves["cell"].n_unique() < 2:
        return None
    spans = bool((data.questions["gold"] == "spans").any())
    quality = "Evidence coverage" if spans else "Recall"
    read = {tokens: _values(data, curves, f"at_{tokens}") for tokens in BUDGETS}
    axes = tuple(one for axis in AXES if (one := _at_context(data, read, axis)))
    return Contexts(quality, axes, _of_depths(curves, ranking_labels(data), quality))


def _at_context(data: ReportData, read: Mapping[int, Values], axis: str) -> AtContext | None:
    """Return an axis at each budget of tokens, over the cells that have a curve for every question."""
    places = next(iter(read.values())).places
    at = AXES.index(axis)
    crossed = find_crossing(places, [at])
    if crossed is None:
        return None
    found = []
    for tokens, values in read.items():
        table = over_contexts(values.crossed(crossed, [at]))
        levels = effect(table, data.seed, data.clusters.codes(values.questions))
        if levels is not None:
            found.append(AtBudget(tokens, levels))
    return AtContext(axis, crossed.levels[0], crossed, tuple(found)) if found else None


def _values(data: ReportData, curves: pl.DataFrame, column: str) -> Values:
    """Return a column of the curves as a table of questions by rankings."""
    board = data.leaderboard.select("cell", *AXES).unique("cell")
    place = {row[0]: tuple(map(str, row[1:])) for row in board.iter_rows()}
    cells = [cell for cell in curves["cell"].unique().sort() if cell in place]
    wide = curves.pivot(on="cell", index="question_id", values=column).sort("question_id")
    return Values(
        AXES,
        tuple(place[cell] for cell in cells),
        tuple(wide["question_id"]),
        wide.select(cells).to_numpy().astype(np.float64),
    )


def _of_depths(curves: pl.DataFrame, labels: Mapping[str, str], quality: str) -> Front | None:
    """Return the front of mean quality and mean length of every ranking, cut at every depth."""
    means = curves.drop("question_id").group_by("cell").mean().sort("cell")
    points = [
        Bought(
            labels.get(row["cell"], row["cell"]),
            row[f"characters_{depth}"] / CHARACTERS_A_TOKEN,
            row[f"value_{depth}"],
            depth,
        )
        for row in means.iter_rows(named=True)
        for depth in DEPTHS
    ]
    return _front(points, quality, "Context", "tokens")


def ranking_labels(data: ReportData) -> Mapping[str, str]:
    """Name every cell that reads a ranking by what rankings differ in."""
    cells = [standing.cell for subset in subsets(data) for standing in subset.standings]
    ranked = [cell for cell in cells if cell.retriever]
    axes = [axis for axis in AXES if len({getattr(cell, axis) for cell in ranked}) > 1] or ["retriever"]
    return {cell.key: cell.label(axes) for cell in ranked}


def _front(
    points: Sequence[Bought], quality: str, cost: str, unit: str, *, higher_is_better: bool = True
) -> Front | None:
    if len({one.cost for one in points}) < 2:
        return None
    sign = 1.0 if higher_is_better else -1.0
    best = front([one.cost for one in points], [sign * one.value for one in points])
    return Front(quality, cost, unit, tuple(points[at] for at in best), tuple(points))


def cost_fronts(
    data: ReportData,
    subset: Subset,
    costs: Mapping[tuple[str, str], Cost],
    usd: Mapping[str, float],
    labels: Mapping[str, str],
) -> tuple[Front, ...]:
    """Return a front for each cost, with the first metric of retrieval, or of answers where they have it.

    Costs are medians of seconds and means of tokens; US dollars are sums. A cell that lacks either is left
    out, and of cells with one ranking all but the first, where the cost is that of the ranking.
    """
    found = []
    for metric in (one for one in data.metrics if one.kind == "cost"):
        quality = _quality(data, metric.of_rankings)
        names = ranking_labels(data) if metric.of_rankings else labels
        chosen = _of_rankings(subset.standings) if metric.of_rankings else subset.standings
        read = [(one, costs.get((one.cell.key, metric.name))) for one in chosen]
        points = [(one, cost.p50 if metric.unit == "s" else cost.mean) for one, cost in read if cost]
        what = f"{metric.title}, {'median' if metric.unit == 's' else 'mean'}"
        found.append(_cost_front(points, quality, what, metric.unit, names))
    paid = [(one, usd[one.cell.key]) for one in subset.standings if one.cell.key in usd]
    found.append(_cost_front(paid, _quality(data, of_rankings=False), "Answers, sum", "US$", labels))
    return tuple(one for one in found if one)


def _of_rankings(standings: Sequence[CellStanding]) -> list[CellStanding]:
    found: dict[tuple[str | None, ...], CellStanding] = {}
    for one in standings:
        if one.cell.retriever:
            found.setdefault((one.cell.chunking, one.cell.embedder, one.cell.retriever), one)
    return list(found.values())


def _quality(data: ReportData, of_rankings: bool) -> MetricInfo | None:
    kind = "retrieval" if of_rankings else "answer"
    return next((one for one in data.metrics if one.kind == kind), None)


def _cost_front(
    costs: Sequence[tuple[CellStanding, float]],
    quality: MetricInfo | None,
    what: str,
    unit: str,
    labels: Mapping[str, str],
) -> Front | None:
    if quality is None:
        return None
    points = [
        _bought(labels.get(one.cell.key, one.cell.key), cost, result)
        for one, cost in costs
        if (result := one.results.get(quality.name)) and result.covered
    ]
    return _front(points, quality.title, what, unit, higher_is_better=quality.higher_is_better)


def _bought(label: str, cost: float, result: Result) -> Bought:
    leads = result.difference is not None and result.p is None
    tied = leads or bool(result.tied)
    return Bought(label, cost, result.value or 0.0, None, result.low, result.high, tied)


def context_words(found: Contexts) -> list[str]:
    """Say of each axis which level is best in which length of context."""
    return [_axis_words(found.quality, one) for one in found.axes]


def _axis_words(quality: str, one: AtContext) -> str:
    of_level: dict[str, list[AtBudget]] = {}
    for budget in one.budgets:
        of_level.setdefault(one.levels[budget.found.best], []).append(budget)
    named = [f"{level} in {_tokens(budgets)}" for level, budgets in of_level.items()]
    worse = {level: [b for b in one.budgets if b.found.apart[at]] for at, level in enumerate(one.levels)}
    apart = [f"{level} in {_tokens(budgets)}" for level, budgets in worse.items() if budgets]
    told = f"significantly worse: {listed(apart, 4)}" if apart else f"no {one.axis} is significantly worse"
    return f"At equal context, the best {one.axis} by {quality} is {listed(named, 4)}; {told}."


def _tokens(budgets: Sequence[AtBudget]) -> str:
    return f"{listed([count(one.tokens) for one in budgets], 4)} tokens"

"""Costs of cells, cells at an equal length of context, and those that buy most quality with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice, product
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rag_assay.evals.metrics.contract import Gold, Metric
from rag_assay.evals.metrics.costs import RunningCost, running_costs
from rag_assay.evals.metrics.token_budget import CHARACTERS_A_TOKEN, context_curve
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import count, number
from rag_assay.evals.reporting.limits import LEADERBOARD_ROWS
from rag_assay.evals.reporting.sections import (
    Column,
    PageSection,
    Table,
    TableFigure,
    missing,
    numbers,
    section,
)
from rag_assay.evals.reporting.standings import CellStanding, Subset, Values, subsets
from rag_assay.evals.reporting.texts import CHARTS, Language, listed_in, metric_title, several, words_in
from rag_assay.evals.statistics.board import front
from rag_assay.evals.statistics.bootstrap import UNIT
from rag_assay.evals.statistics.effects import Levels, effect, over_contexts
from rag_assay.evals.statistics.full_crossing import Crossing
from rag_assay.evals.statistics.verdict import dollars
from rag_assay.warehouse.schemas import Schema
from rag_assay.warehouse.spans import Span

if TYPE_CHECKING:
    import duckdb


Cost = Mapping[str, float]
"""`mean`, `p50`, `p95` and `total` of a cost metric over `n` questions with a value, each replicate apart."""


def cost_metrics(data: ReportData) -> tuple[MetricInfo, ...]:
    return tuple(metric for metric in data.metrics if metric.kind == "cost")


def costs(data: ReportData) -> Mapping[tuple[str, str], Cost]:
    """Return (cell, metric) -> cost, if any; percentiles are interpolated linearly."""
    names = [metric.name for metric in cost_metrics(data)]
    good = data.scores.filter(
        (pl.col("status") == "ok") & pl.col("metric").is_in(names) & pl.col("value").is_not_null()
    )
    value = pl.col("value")
    rows = good.group_by("cell", "metric").agg(
        n=pl.col("question_id").n_unique(),
        mean=value.mean(),
        p50=value.quantile(0.5, "linear"),
        p95=value.quantile(0.95, "linear"),
        total=value.sum(),
    )
    return rows.rows_by_key(("cell", "metric"), named=True, unique=True)


def usd_by_cell(data: ReportData) -> Mapping[str, float]:
    priced = data.answers.filter(pl.col("usd").is_not_null()).group_by("cell").agg(pl.col("usd").sum())
    return dict(priced.iter_rows())


def costs_section(
    data: ReportData,
    labels: Mapping[str, str],
    reasons: Mapping[tuple[str, str], str],
    language: Language = "en",
) -> PageSection | None:
    """Return the costs of each cell, if any metric is one; reasons: (cell, metric) -> why it has no value."""
    metrics, found, usd = cost_metrics(data), costs(data), usd_by_cell(data)
    if not metrics:
        return None
    words = words_in(CHARTS, language)
    columns = [Column(words("cell"), style="cell")]
    for metric in metrics:
        pair = ("p50", "p95") if metric.unit == "s" else (words("how_mean"), words("how_sum"))
        units = [", ".join(filter(None, (what, metric.unit))) for what in pair]
        columns += [Column(metric_title(metric.title, language), unit, is_number=True) for unit in units]
    columns += numbers(words("questions"))
    columns += numbers(words("answers"), unit=f"{words('how_sum')}, US$") if usd else []
    rows = []
    for cell, label in islice(labels.items(), LEADERBOARD_ROWS):
        row: list[str | TableFigure] = [label]
        asked = []
        for metric in metrics:
            cost = found.get((cell, metric.name))
            if cost is None:
                row += [missing(reasons.get((cell, metric.name)) or words("not_measured"))] * 2
                continue
            asked.append(cost["n"])
            values = (cost[name] for name in (("p50", "p95") if metric.unit == "s" else ("mean", "total")))
            row += [TableFigure(number(value, metric.unit), sort=value) for value in values]
        ends = "–".join(map(str, sorted({min(asked), max(asked)}))) if asked else ""
        row.append(TableFigure(ends, sort=min(asked)) if asked else missing(words("no_value")))
        if usd:
            paid = usd.get(cell)
            row.append(missing(words("no_price")) if paid is None else TableFigure(f"{paid:.4f}", sort=paid))
        rows.append(row)
    further = len(labels) - len(rows)
    rest = several(words, "left_cells", further) if further else ""
    table = Table(words("costs_by_cell"), columns, rows, rest, "sortable filterable")
    return section("costs", [table], language=language)


@lru_cache(maxsize=2)  # a page shows them in its leaderboard and in its verdict
def running(data: ReportData) -> Mapping[str, RunningCost]:
    return running_costs(data.scores, data.answers, seconds_metrics(data.metrics), data.unpriced)


def seconds_metrics(metrics: Iterable[Metric | MetricInfo]) -> list[str]:
    return [one.name for one in metrics if one.kind == "cost" and one.unit == "s"]


def price(value: float) -> str:
    return dollars(value).removeprefix("US$ ")


BUDGETS = (500, 1_000, 2_000, 4_000)  # tokens of context
DEPTHS = (1, 2, 3, 5, 10)  # passages
CURVES: Schema = {
    "cell": pl.String,
    "question_id": pl.String,
    **{f"at_{tokens}": pl.Float64 for tokens in BUDGETS},  # share of the gold in so many tokens
    **{f"value_{depth}": pl.Float64 for depth in DEPTHS},  # … in so many passages
    **{f"characters_{depth}": pl.Float64 for depth in DEPTHS},  # and how long they are
}


def curves_of(
    connection: duckdb.DuckDBPyConnection, first: Mapping[str, str], golds: Mapping[str, Gold]
) -> pl.DataFrame:
    """Return the curves (CURVES) of rankings; first: ranking -> the cell that stands for it; golds: by
    question id.
    """
    ranked = connection.execute(
        "SELECT p.key, r.question_id FROM ranked r JOIN pointers p ON p.stage = 'rankings' "
        "AND p.artifact_id = r.artifact_id WHERE r.status = 'ok' AND list_contains(?, p.key) ORDER BY ALL",
        [list(first)],
    ).fetchall()
    found: dict[tuple[str, str], list[Span]] = {(ranking, question): [] for ranking, question in ranked}
    longest = max(BUDGETS) * CHARACTERS_A_TOKEN
    rows = connection.execute(_HITS, [list(first), list(golds), max(DEPTHS), longest])
    for pair, hits in groupby(rows.fetchall(), key=lambda row: (row[0], row[1])):
        if pair in found:
            found[pair] = [Span(*hit[2:]) for hit in hits]
    curves = [
        _row(first[ranking], question, golds[question], hits)
        for (ranking, question), hits in found.items()
        if question in golds
    ]
    return pl.DataFrame(curves, schema=CURVES, orient="row")


_HITS = """
SELECT ranking, question_id, doc_id, "start", "end" FROM (
  SELECT *, sum("end" - "start") OVER (
    PARTITION BY ranking, question_id ORDER BY rank ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS before
  FROM current_hits WHERE list_contains(?, ranking) AND list_contains(?, question_id)
) WHERE rank <= ? OR before < ? ORDER BY ranking, question_id, rank
"""


def _row(cell: str, question: str, gold: Any, hits: Sequence[Span]) -> tuple[Any, ...]:
    curve = context_curve(gold, hits)
    depths = [min(depth, len(hits)) - 1 for depth in DEPTHS]
    return (
        cell,
        question,
        *curve.at_each(BUDGETS),
        *(curve.values[at] if hits else 0.0 for at in depths),
        *(float(curve.characters[at]) if hits else 0.0 for at in depths),
    )


AXES = ("chunking", "embedder", "retriever")


@dataclass(frozen=True, eq=False)
class AtContext:
    """The levels of an axis; budgets: tokens -> their means in contexts of that length"""

    axis: str
    levels: tuple[str, ...]
    crossing: Crossing
    budgets: Mapping[int, Levels]


@dataclass(frozen=True)
class Bought:
    """A cell, what it costs, its quality with its interval; depth: passages read, if their length is the
    cost.

    tied: it leads by this quality, or is tied with the leader
    """

    label: str
    cost: float
    value: float
    depth: int | None = None
    low: float | None = None
    high: float | None = None
    tied: bool = False
    pipeline: str = ""


@dataclass(frozen=True)
class Front:
    """What no cell beats: dearer ones are better, better ones dearer; all: also points off the front.

    cost: title of a metric, or `context` or `answers`; how: `median`, `mean` or `sum` of it
    """

    quality: str
    cost: str
    unit: str
    points: tuple[Bought, ...]
    all: tuple[Bought, ...]
    how: str = ""

    @property
    def of(self) -> int:
        return len(self.all)


@dataclass(frozen=True, eq=False)
class Contexts:
    """Lengths of context; quality: evidence coverage, or recall where whole documents are gold."""

    quality: str
    axes: tuple[AtContext, ...]
    front: Front | None


@lru_cache(maxsize=2)  # a report shows them on its page, in its rows and on the terminal
def contexts(data: ReportData) -> Contexts | None:
    """Return the axes at equal lengths of context, and the front of all rankings cut at each depth.

    None: fewer than two rankings have reference passages to find.
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
    found: dict[int, Levels] = {}
    crossing = None
    for tokens, values in read.items():
        along = values.along(axis)
        if along is None:
            return None
        crossing, table = along
        codes = data.clusters.codes(values.questions)
        shares = next((one for one in data.metrics if one.of_rankings and one.bounds == UNIT), None)
        margin = data.margin_of(shares) if shares else None
        levels = effect(over_contexts(table), data.seed, codes, margin=margin)
        if levels is not None:
            found[tokens] = levels
    return AtContext(axis, crossing.levels[0], crossing, found) if found and crossing else None


def _values(data: ReportData, curves: pl.DataFrame, column: str) -> Values:
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
    means = curves.drop("question_id").group_by("cell").mean().sort("cell")
    points = []
    for row, depth in product(means.iter_rows(named=True), DEPTHS):
        label, tokens = labels.get(row["cell"], row["cell"]), row[f"characters_{depth}"] / CHARACTERS_A_TOKEN
        points.append(Bought(label, tokens, row[f"value_{depth}"], depth, pipeline=row["cell"]))
    return _front(points, quality, "context", "", "tokens")


def ranking_labels(data: ReportData) -> Mapping[str, str]:
    cells = [standing.cell for subset in subsets(data) for standing in subset.standings]
    ranked = [cell for cell in cells if cell.retriever]
    axes = [axis for axis in AXES if len({getattr(cell, axis) for cell in ranked}) > 1] or ["retriever"]
    return {cell.key: cell.label(axes) for cell in ranked}


def _front(
    points: Sequence[Bought], quality: str, cost: str, how: str, unit: str, *, higher_is_better: bool = True
) -> Front | None:
    if len({one.cost for one in points}) < 2:
        return None
    sign = 1.0 if higher_is_better else -1.0
    best = front([one.cost for one in points], [sign * one.value for one in points])
    return Front(quality, cost, unit, tuple(points[at] for at in best), tuple(points), how)


def cost_fronts(
    data: ReportData,
    subset: Subset,
    costs: Mapping[tuple[str, str], Cost],
    usd: Mapping[str, float],
    labels: Mapping[str, str],
) -> tuple[Front, ...]:
    """Return a front for each cost, with the first metric of retrieval, or of answers where they have it.

    Costs are medians of seconds, means of tokens and sums of US dollars. Cells that lack either are left out,
    and of cells with one ranking all but the first, where the cost is that of the ranking.
    """
    found = []
    for metric in (one for one in data.metrics if one.kind == "cost"):
        quality = _quality(data, metric.of_rankings)
        names = ranking_labels(data) if metric.of_rankings else labels
        chosen = _of_rankings(subset.standings) if metric.of_rankings else subset.standings
        read = [(one, costs.get((one.cell.key, metric.name))) for one in chosen]
        how, name = ("median", "p50") if metric.unit == "s" else ("mean", "mean")
        points = [(one, cost[name]) for one, cost in read if cost]
        what = (metric.title, how, metric.unit)
        found.append(_cost_front(points, quality, what, names))
    paid = [(one, usd[one.cell.key]) for one in subset.standings if one.cell.key in usd]
    found.append(_cost_front(paid, _quality(data, of_rankings=False), ("answers", "sum", "US$"), labels))
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
    what: tuple[str, str, str],
    labels: Mapping[str, str],
) -> Front | None:
    if quality is None:
        return None
    points = []
    for one, cost in costs:
        if (result := one.results.get(quality.name)) and result.covered:
            key, ends = one.cell.key, (result.low, result.high)
            leads = bool(result.tied) or (result.difference is not None and result.p is None)
            label, value = labels.get(key, key), result.value or 0.0
            points.append(Bought(label, cost, value, None, *ends, tied=leads, pipeline=key))
    return _front(points, quality.title, *what, higher_is_better=quality.higher_is_better)


def context_words(found: Contexts, language: Language = "en") -> list[str]:
    return [_axis_words(found.quality, one, language) for one in found.axes]


def _axis_words(quality: str, one: AtContext, language: Language) -> str:
    words = words_in(CHARTS, language)

    def named(budgets: Mapping[str, Sequence[int]]) -> str:
        at = [
            words("at_tokens", level=level, tokens=listed_in(language, list(map(count, tokens)), 4))
            for level, tokens in budgets.items()
            if tokens
        ]
        return listed_in(language, at, 4)

    of_level: dict[str, list[int]] = {}
    for tokens, found in one.budgets.items():
        of_level.setdefault(one.levels[found.best], []).append(tokens)
    worse = {
        level: [tokens for tokens, found in one.budgets.items() if found.apart[at]]
        for at, level in enumerate(one.levels)
    }
    axis = words(f"axis_{one.axis}")
    told = words("apart", names=named(worse)) if any(worse.values()) else words("none_apart", axis=axis)
    return words("at_context", axis=axis, quality=quality, named=named(of_level), told=told)

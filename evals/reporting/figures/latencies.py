"""How long each generator takes, and how many tokens it reads and writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.bars import (
    BarColumn,
    BarTable,
    BarValue,
    ColumnHeading,
    Mark,
    column,
    rows_of,
)
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import count, quantity, times
from rag_assay.evals.reporting.figures.captions import left_out
from rag_assay.evals.statistics.bootstrap import intervals


def latencies_figure(data: ReportData) -> BarTable | None:
    """Return time and tokens of each generator over all of its answers; None where nobody answered."""
    metrics = [one for one in data.metrics if one.kind == "cost" and not one.of_rankings]
    timed = [one for one in metrics if one.unit == "s"]
    rows = _rows(data, [one.name for one in metrics])
    names = _order(rows, timed)
    if not timed or not names:
        return None
    shown = names[: limits.LATENCY_ROWS]
    columns = [each for metric in metrics for each in _columns(data, rows, metric, shown)]
    return BarTable(
        "chart-latencies",
        "Time of each generator",
        _about(rows, timed[0], names),
        "Generator",
        tuple(head for head, _ in columns),
        rows_of(shown, columns),
        left_out("they are slower, and in the table below", generator=len(names) - len(shown)),
    )


def _rows(data: ReportData, metrics: Sequence[str]) -> pl.DataFrame:
    """Return the values of cost metrics of answers that were given, with the generator of their cell."""
    cells = data.leaderboard.select("cell", "generator").unique("cell").drop_nulls()
    good = (pl.col("status") == "ok") & pl.col("value").is_finite() & pl.col("metric").is_in(list(metrics))
    return (
        data.scores.filter(good).join(cells, on="cell").select("generator", "question_id", "metric", "value")
    )


def _order(rows: pl.DataFrame, timed: Sequence[MetricInfo]) -> list[str]:
    """Return the generators, the fastest median first."""
    if not timed:
        return []
    of_first = rows.filter(pl.col("metric") == timed[0].name)
    return (
        of_first.group_by("generator")
        .agg(pl.col("value").median())
        .sort("value", "generator")["generator"]
        .to_list()
    )


def _columns(
    data: ReportData, rows: pl.DataFrame, metric: MetricInfo, names: Sequence[str]
) -> list[tuple[BarColumn, list[Mark | str]]]:
    own = rows.filter(pl.col("metric") == metric.name)
    value = pl.col("value")
    known = {
        row["generator"]: row
        for row in own.group_by("generator")
        .agg(n=pl.len(), median=value.median(), p95=value.quantile(0.95, "linear"))
        .iter_rows(named=True)
    }
    found = _means(data, own, names)
    none = BarValue(None, why="no answer has a value")

    def of(what: str) -> list[BarValue]:
        return [BarValue(known[name][what]) if name in known else none for name in names]

    def drawn(figures: list[BarValue], note: str) -> tuple[BarColumn, list[Mark | str]]:
        return column(ColumnHeading(metric.title, metric.unit, metric.explanation, note), figures)

    means = [
        BarValue(*found[name], small=(f"n = {count(known[name]['n'])}",)) if name in known else none
        for name in names
    ]
    unit = f", {metric.unit}" if metric.unit else ""
    if metric.unit != "s":
        return [drawn(means, f"mean{unit}")]
    return [
        drawn(of("median"), f"median{unit}"),
        drawn(of("p95"), f"95th percentile{unit}"),
        drawn(means, f"mean{unit}"),
    ]


def _means(
    data: ReportData, rows: pl.DataFrame, names: Sequence[str]
) -> dict[str, tuple[float, float | None, float | None]]:
    """Return of each generator the mean over questions of the means of its cells, with its interval."""
    wide = (
        rows.group_by("question_id", "generator")
        .agg(pl.col("value").mean())
        .pivot(on="generator", index="question_id", values="value")
        .sort("question_id")
    )
    own = [name for name in names if name in wide.columns[1:]]
    table = wide.select(own).to_numpy().astype(np.float64)
    found = intervals(table, data.seed, data.clusters.codes(wide["question_id"].to_list()))
    return {
        name: (one.mean, None if one.low is None else max(0.0, one.low), one.high)
        for name, one in zip(own, found, strict=True)
        if one is not None
    }


def _about(rows: pl.DataFrame, metric: MetricInfo, names: Sequence[str]) -> str:
    own = rows.filter(pl.col("metric") == metric.name)
    medians = dict(own.group_by("generator").agg(pl.col("value").median()).iter_rows())
    first, last = medians[names[0]], medians[names[-1]]
    opening = f"{names[0]} answers in {quantity(first, 's')} (median)"
    if len(names) > 1 and quantity(first, "s") == quantity(last, "s"):
        opening = f"All generators answer in {quantity(first, 's')} (median)"
    elif len(names) > 1:
        longer = f", {times(last / first)} times as long" if first > 0 else ""
        slowest = f"{names[-1]} takes {quantity(last, 's')}{longer}"
        opening = f"{names[0]} is the fastest, {quantity(first, 's')} (median); {slowest}"
    return f"{opening}. Over all answers that were given; what failed has no time."

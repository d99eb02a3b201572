"""Costs of a cell: latency at the median and 95th percentile, total tokens and money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import polars as pl

from rag_assay.evals.metrics.contract import Metric
from rag_assay.evals.metrics.running_costs import RunningCost, running_costs
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.statistics.verdict_text import dollars

_KNOWN: WeakKeyDictionary[ReportData, Mapping[str, RunningCost]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Cost:
    """One cost metric of one cell over the n questions that have a value, each replicate for itself."""

    n: int
    mean: float
    p50: float
    p95: float
    total: float


def cost_metrics(data: ReportData) -> tuple[MetricInfo, ...]:
    """Return the study's metrics of the kind `cost`."""
    return tuple(metric for metric in data.metrics if metric.kind == "cost")


def costs(data: ReportData) -> Mapping[tuple[str, str], Cost]:
    """Return (cell, metric) -> its cost; pairs without one good value are absent.

    Percentiles are interpolated linearly between neighbours.
    """
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
    return {
        (row["cell"], row["metric"]): Cost(row["n"], row["mean"], row["p50"], row["p95"], row["total"])
        for row in rows.iter_rows(named=True)
    }


def usd_by_cell(data: ReportData) -> Mapping[str, float]:
    """Return cell -> US dollars of all of its answers; cells without a known price are absent."""
    priced = data.answers.filter(pl.col("usd").is_not_null()).group_by("cell").agg(pl.col("usd").sum())
    return {row["cell"]: row["usd"] for row in priced.iter_rows(named=True)}


def running(data: ReportData) -> Mapping[str, RunningCost]:
    """Return cell -> what it costs to run; computed once for each report."""
    if data not in _KNOWN:
        _KNOWN[data] = running_costs(data.scores, data.answers, seconds_metrics(data.metrics), data.unpriced)
    return _KNOWN[data]


def seconds_metrics(metrics: Iterable[Metric | MetricInfo]) -> list[str]:
    """Return the names of the metrics whose sum is the time of a question."""
    return [one.name for one in metrics if one.kind == "cost" and one.unit == "s"]


def price(value: float) -> str:
    """Write US dollars without their name.

    >>> price(0.0), price(2.0), price(0.00123)
    ('0', '2.00', '0.0012')
    """
    return dollars(value).removeprefix("US$ ")

"""All metrics of each configuration side by side, as a table and as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from rag_assay.evals.reporting.display import listed
from rag_assay.evals.reporting.figures.captions import IN_ROWS, left_out
from rag_assay.evals.reporting.standings import CellStanding, Result, Subset


def metrics_figure(data: ReportData, subset: Subset, labels: Mapping[str, str]) -> BarTable | None:
    """Return the leading cells with every metric that is no cost; None where there are not two of either.

    labels: cell -> its name
    """
    standings = subset.standings[: limits.METRICS_ROWS]
    measured = [one for one in data.metrics if one.kind != "cost" and _known(subset.standings, one)]
    metrics = measured[: limits.METRICS_COLUMNS]
    if len(metrics) < 2 or len(standings) < 2:
        return None
    columns = [_column(one, standings, subset) for one in metrics]
    names = [labels.get(one.cell.key, one.cell.key) for one in standings]
    further = len(subset.standings) - len(standings)
    return BarTable(
        "chart-metrics",
        "All metrics",
        _about(metrics, subset, labels),
        "Cell",
        tuple(head for head, _ in columns),
        rows_of(names, columns, frozenset({0} if standings[0].rank == 1 else ())),
        left_out(IN_ROWS, cell=further, metric=len(measured) - len(metrics)),
    )


def _known(standings: Sequence[CellStanding], metric: MetricInfo) -> dict[str, float]:
    """Return cell -> the mean of a metric, of cells with enough values."""
    return {
        one.cell.key: found.value
        for one in standings
        if (found := one.results.get(metric.name)) and found.covered and found.value is not None
    }


def _column(
    metric: MetricInfo, standings: Sequence[CellStanding], subset: Subset
) -> tuple[BarColumn, list[Mark | str]]:
    note = f"n = {subset.n(metric)}" + ("" if metric.higher_is_better else ", lower is better")
    figures = [_figure(one.results.get(metric.name)) for one in standings]
    return column(ColumnHeading(metric.title, metric.unit, metric.explanation, note), figures)


def _figure(found: Result | None) -> BarValue:
    if found is None:
        return BarValue(None, why="not measured in this cell")
    if found.value is None:
        return BarValue(None, why="no question has a value")
    if not found.covered:
        return BarValue(found.value, sign="†", style="unranked")
    return BarValue(found.value, found.low, found.high)


def _about(metrics: Sequence[MetricInfo], subset: Subset, labels: Mapping[str, str]) -> str:
    best: dict[str, list[str]] = {}
    for metric in metrics:
        known = _known(subset.standings, metric)
        first = (max if metric.higher_is_better else min)(known, key=known.__getitem__)
        best.setdefault(labels.get(first, first), []).append(metric.title)
    named = "; ".join(f"{name} by {listed(titles, 4)}" for name, titles in best.items())
    return (
        "The leading cells in the order of the leaderboard, by every metric: bars begin at 0, a line is the "
        f"interval. The best means: {named}. Where lines overlap, that may be chance."
    )

"""The primary metric of a subset, one entry for each result that can differ.

A generator cannot change a retrieval metric. Cells that differ in nothing else share one entry there, so
that no cell is said to be tied with its own ranking.
"""

from __future__ import annotations

from dataclasses import dataclass

from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.standings import CellStanding, Result, Subset, varying_axes


@dataclass(frozen=True)
class RankedResult:
    """One result of the primary metric and the keys of the cells that have it, those with a rank first.

    p_best: how likely one of them is the best
    """

    label: str
    rank: int | None
    result: Result
    cells: tuple[str, ...]
    p_best: float | None = None

    @property
    def tied(self) -> bool:
        """Whether it is not significantly different from the leader; what was not compared is not."""
        return self.result.tied is not False


def entries(data: ReportData, subset: Subset) -> tuple[RankedResult, ...]:
    """Return the entries of ``subset`` in the order of its standings; cells without a result are left out."""
    axes = varying_axes(subset.standings)
    groups: dict[tuple[object, ...], list[CellStanding]] = {}
    for standing in subset.standings:
        if data.primary.name in standing.results:
            groups.setdefault(_group(standing, data.primary), []).append(standing)
    shared = len(groups) < sum(len(group) for group in groups.values())
    return tuple(_entry(group, data.primary, _named(axes, shared)) for group in groups.values())


def could_reach(unranked: Result, leader: Result, metric: MetricInfo) -> bool:
    """Return whether the best case of a cell without a rank reaches the interval of the leader."""
    if unranked.best is None or leader.low is None or leader.high is None:
        return True
    return unranked.best >= leader.low if metric.higher_is_better else unranked.best <= leader.high


def _group(standing: CellStanding, metric: MetricInfo) -> tuple[object, ...]:
    if metric.kind != "retrieval":
        return (standing.cell.key,)
    cell = standing.cell
    result = standing.results[metric.name]
    # Ranks do not count: of two generators on one ranking, one may have answered too little for a rank.
    return (cell.chunking, cell.embedder, cell.retriever, result.value, result.n, result.coverage)


def _named(axes: tuple[str, ...], shared: bool) -> tuple[str, ...]:
    without = tuple(axis for axis in axes if axis != "generator")
    return (without or ("chunking", "retriever")) if shared else axes


def _entry(group: list[CellStanding], metric: MetricInfo, axes: tuple[str, ...]) -> RankedResult:
    first = group[0]
    return RankedResult(
        first.cell.label(axes),
        first.rank,
        first.results[metric.name],
        tuple(standing.cell.key for standing in group),
        sum(chances) if (chances := [one.p_best for one in group if one.p_best is not None]) else None,
    )

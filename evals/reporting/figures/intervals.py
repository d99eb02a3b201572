"""The means of the first metric with their intervals, and the same small beside each row of a leaderboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rag_assay.evals.reporting import limits
from rag_assay.evals.reporting.charts.bars import BarTable, BarValue, ColumnHeading, column, rows_of
from rag_assay.evals.reporting.charts.scales import Scale, domain
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.display import quantity, several
from rag_assay.evals.reporting.entries import RankedResult
from rag_assay.evals.reporting.figures.captions import left_out
from rag_assay.evals.reporting.standings import Result

Place = Literal["leader", "tied", "apart", "unranked"]


@dataclass(frozen=True)
class Bar:
    """The small interval drawn in a row, in hundredths of its width."""

    left: float | None
    right: float | None
    dot: float
    place: Place


def place_of(entry: RankedResult, leader: RankedResult | None) -> Place:
    """Return how an entry compares with the leader; tied: not significantly different."""
    if entry.rank is None or leader is None:
        return "unranked"
    if entry is leader:
        return "leader"
    return "tied" if entry.tied else "apart"


def intervals_figure(data: ReportData, entries: Sequence[RankedResult], cells: int) -> BarTable | None:
    """Return the entries that have a value, in their order; None when there is none.

    cells: of the whole leaderboard
    """
    metric = data.primary
    valued = [entry for entry in entries if entry.result.value is not None]
    shown = valued[: limits.CHART_ROWS]
    if not shown:
        return None
    leader = leader_of(shown)
    band = None
    if leader and leader.result.low is not None and leader.result.high is not None:
        band = (leader.result.low, leader.result.high)
    figures = [_figure(entry, place_of(entry, leader)) for entry in shown]
    drawn = column(
        ColumnHeading(metric.title, metric.unit, data.interval),
        figures,
        form="dot",
        bounds=metric.bounds,
        band=band,
    )
    places = [place_of(entry, leader) for entry in valued]
    about = _about(data, places, drawn[0].scale)
    if len(entries) < cells and metric.kind == "retrieval":
        about += (
            " A generator cannot change this metric, so cells that differ in the generator alone share a row."
        )
    rest = left_out("the table holds them", row=len(valued) - len(shown))
    names = [entry.label for entry in shown]
    first = frozenset(at for at, entry in enumerate(shown) if entry is leader)
    rows = rows_of(names, [drawn], first)
    title = f"Intervals of {metric.title}"
    return BarTable("chart-intervals", title, about, "Cell", (drawn[0],), rows, rest)


def small_bars(metric: MetricInfo, entries: Sequence[RankedResult]) -> Mapping[str, Bar]:
    """Return cell -> the interval of the first metric, drawn small; cells without a value are absent."""
    found = [entry for entry in entries if entry.result.value is not None]
    if not found:
        return {}
    ends = [end for entry in found for end in (*_ends(entry.result), entry.result.value)]
    scale = Scale(*domain(ends, metric.bounds), 3, 97)
    leader = leader_of(found)
    bars = {}
    for entry in found:
        at = [scale.at(end) for end in _ends(entry.result) if end is not None]
        left, right = at if len(at) == 2 else (None, None)
        bar = Bar(left, right, scale.at(entry.result.value or 0.0), place_of(entry, leader))
        bars.update(dict.fromkeys(entry.cells, bar))
    return bars


def leader_of(entries: Sequence[RankedResult]) -> RankedResult | None:
    """Return the first entry that has a rank."""
    return next((entry for entry in entries if entry.rank is not None), None)


def _ends(result: Result) -> tuple[float | None, float | None]:
    """Return the ends of the interval; a cell without a rank spans its worst to its best case."""
    if result.covered:
        return result.low, result.high
    if result.worst is None or result.best is None:
        return None, None
    return min(result.worst, result.best), max(result.worst, result.best)


def _figure(entry: RankedResult, place: Place) -> BarValue:
    low, high = _ends(entry.result)
    small = () if entry.result.covered else ("worst to best case",)
    sign = {"tied": " ≈", "unranked": "†"}.get(place, "")
    return BarValue(entry.result.value, low, high, small, place, sign=sign)


def _about(data: ReportData, places: Sequence[Place], scale: Scale) -> str:
    words = [f"A dot is the mean, a line its {data.interval}"]
    tied = places.count("tied")
    if "leader" in places:
        same = (
            f"A diamond (≈) is tied with it: {several(tied, 'row')}"
            if tied
            else "Every other ranked row is significantly worse"
        )
        words[0] += "; the band is the leading cell's interval"
        words.append(
            f"{same}; that is a matter of the differences on each question, not of where the lines meet"
        )
    if "unranked" in places:
        words.append("A ring with a dashed line (†) has no rank: the line spans its worst to its best case")
    if scale.low > 0 or scale.high < 0:
        words.append(f"The axis begins at {quantity(scale.low, data.primary.unit)}, not at 0")
    return ". ".join(words) + "."

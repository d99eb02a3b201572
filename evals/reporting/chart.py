"""The geometry of the interval chart: one row an entry, a dot for the mean, a line for the interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evals.reporting import limits
from evals.reporting.data import MetricInfo
from evals.reporting.display import interval, number, trimmed
from evals.reporting.entries import Entry
from evals.reporting.standings import Result

Place = Literal["leader", "tied", "apart", "unranked"]


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` onto `left` to `right` in user units of the SVG."""

    low: float
    high: float
    left: float
    right: float

    def x(self, value: float) -> float:
        """Return the place of a value, kept within the scale's ends.

        >>> Scale(0.0, 1.0, 10, 20).x(0.25)
        12.5
        """
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + min(1.0, max(0.0, share)) * (self.right - self.left), 2)


@dataclass(frozen=True)
class Tick:
    """A line of the grid and its label."""

    x: float
    label: str


@dataclass(frozen=True)
class Mark:
    """One row of the chart; a cell without a rank spans its worst to its best case."""

    label: str
    full: str
    y: float
    left: float | None
    right: float | None
    dot: float
    value: str
    place: Place


@dataclass(frozen=True)
class Chart:
    """A chart to draw; `stacked` puts the labels above the rows, for narrow screens."""

    width: int
    height: float
    scale: Scale
    ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    band: tuple[float, float] | None
    stacked: bool
    left_out: int


def place_of(entry: Entry, leader: Entry | None) -> Place:
    """Say how an entry stands to the leader: tied when it cannot be told apart from it."""
    if entry.rank is None or leader is None:
        return "unranked"
    if entry is leader:
        return "leader"
    return "tied" if entry.tied else "apart"


def chart(entries: Sequence[Entry], metric: MetricInfo, *, stacked: bool) -> Chart | None:
    """Lay out the entries that have a value, in their order; None when there is none."""
    valued = [entry for entry in entries if entry.result.value is not None]
    shown = valued[: limits.CHART_ROWS]
    if not shown:
        return None
    width, left, right, row = (360, 8.0, 346.0, 34) if stacked else (1040, _label_width(shown), 920.0, 24)
    low, high = domain([entry.result for entry in shown], metric)
    scale = Scale(low, high, left, right)
    leader = next((entry for entry in shown if entry.rank is not None), None)
    marks = tuple(
        _mark(entry, 30.0 + row * index + row / 2, scale, metric, place_of(entry, leader), stacked)
        for index, entry in enumerate(shown)
    )
    return Chart(
        width,
        30.0 + row * len(shown) + 8,
        scale,
        tuple(
            Tick(scale.x(value), _tick_label(value, metric))
            for value in ticks(low, high, 4 if stacked else 8)
        ),
        marks,
        _band(leader, scale),
        stacked,
        len(valued) - len(shown),
    )


def domain(results: Sequence[Result], metric: MetricInfo) -> tuple[float, float]:
    """Return the range to draw: all intervals with a margin, within the metric's bounds."""
    ends = [end for result in results for end in (*_ends(result), result.value) if end is not None]
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    floor, ceiling = metric.bounds
    low = low - margin if floor is None else max(floor, low - margin)
    high = high + margin if ceiling is None else min(ceiling, high + margin)
    return (low, high) if high > low else (low - margin, high + margin)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values from ``low`` to ``high``, at most ``most`` + 1 of them.

    >>> ticks(0.0, 1.0, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]


def _label_width(entries: Sequence[Entry]) -> float:
    return min(430.0, 24 + 8.0 * max(min(len(entry.label), 50) for entry in entries))


def _tick_label(value: float, metric: MetricInfo) -> str:
    return f"{value:g}".replace("-", "−") + (f" {metric.unit}" if metric.unit == "s" else "")


def _ends(result: Result) -> tuple[float | None, float | None]:
    if result.covered:
        return result.low, result.high
    if result.worst is None or result.best is None:
        return None, None
    return min(result.worst, result.best), max(result.worst, result.best)


def _mark(entry: Entry, y: float, scale: Scale, metric: MetricInfo, place: Place, stacked: bool) -> Mark:
    result = entry.result
    low, high = _ends(result)
    ends = interval(low, high, metric.unit)
    kind = "interval" if result.covered else "worst to best case"
    value = number(result.value, metric.unit)
    return Mark(
        trimmed(entry.label, 40 if stacked else 50),
        f"{entry.label}: {value}, {kind} {ends}",
        y,
        None if low is None else scale.x(low),
        None if high is None else scale.x(high),
        scale.x(result.value or 0.0),
        value + ("†" if place == "unranked" else ""),
        place,
    )


def _band(leader: Entry | None, scale: Scale) -> tuple[float, float] | None:
    if leader is None or leader.result.low is None or leader.result.high is None:
        return None
    left, right = scale.x(leader.result.low), scale.x(leader.result.high)
    return left, round(right - left, 2)

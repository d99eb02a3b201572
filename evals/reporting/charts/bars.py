"""Rows of bars or dots with intervals: a table whose numbers are drawn beside themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rag_assay.evals.reporting.charts.scales import Bounds, Scale, Tick, domain, finite, from_zero, ticks
from rag_assay.evals.reporting.display import count, number, truncate

Form = Literal["bar", "dot"]
LABEL = 80  # characters of a name
TICKS = 5
COUNT = "count"  # unit of whole numbers


@dataclass(frozen=True)
class BarValue:
    """A number that is to be drawn.

    value: None, or not finite: there is none, and `why` says why
    small: further lines below it, beside its interval
    style: class of its mark; marks of one style have one shape
    sign: written behind it
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    small: tuple[str, ...] = ()
    style: str = ""
    why: str = "no value"
    sign: str = ""


@dataclass(frozen=True)
class Mark:
    """A figure with its places in percent.

    start, width: of the bar; of a dot its place and 0
    left, right: ends of the interval; None: there is none
    text: the value as it is written; lines: interval and what else stands below it
    """

    start: float
    width: float
    at: float
    left: float | None
    right: float | None
    text: str
    lines: tuple[str, ...]
    style: str
    value: float


@dataclass(frozen=True)
class ColumnHeading:
    """What a column is of.

    unit: in which values are written (`written`)
    note: behind the heading; None: the unit
    """

    text: str
    unit: str = ""
    about: str = ""
    note: str | None = None

    @property
    def behind(self) -> str:
        """What stands behind the text."""
        return self.unit if self.note is None else self.note


@dataclass(frozen=True)
class BarColumn:
    """One number of each row.

    form: bars begin at 0; dots leave it out where it is far
    ticks: of dots, whose scale nobody guesses
    band: from and to, in percent: what other intervals are held against
    """

    heading: ColumnHeading
    form: Form
    scale: Scale
    ticks: tuple[Tick, ...] = ()
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class Row:
    """A name, whole and short, and its marks: a text where one has no value, which says why."""

    label: str
    full: str
    marks: tuple[Mark | str, ...]
    emphasis: bool = False


@dataclass(frozen=True)
class BarTable:
    """A chart of rows.

    anchor: id on the page; corner: heading of the names
    about: what the chart shows, in sentences
    rest: what is not shown of it
    """

    kind: ClassVar[str] = "bars"
    anchor: str
    title: str
    about: str
    corner: str
    columns: tuple[BarColumn, ...]
    rows: tuple[Row, ...]
    rest: str = ""


def column(
    heading: ColumnHeading,
    figures: Sequence[BarValue],
    *,
    form: Form = "bar",
    bounds: Bounds = (None, None),
    band: tuple[float, float] | None = None,
) -> tuple[BarColumn, list[Mark | str]]:
    """Return a column and the marks of its rows.

    bounds: of the values, which dots' scales keep to
    band: an interval that the others are held against

    >>> values = [BarValue(0.5, 0.4, 1.0), BarValue(None, why="not run")]
    >>> head, (one, none) = column(ColumnHeading("Recall"), values)
    >>> (one.start, one.width, one.left, one.right, one.text, one.lines), none
    ((0.0, 50.0, 40.0, 100.0, '0.500', ('0.400–1.000',)), 'not run')
    """
    ends = [end for one in figures for end in (one.value, one.low, one.high)]
    dots = Scale(*domain(ends, bounds), left=1.0, right=99.0)
    scale = dots if form == "dot" else Scale(*from_zero(ends))
    marks = [_mark(one, scale, form, heading.unit) for one in figures]
    grid = ticks(scale, TICKS, heading.unit) if form == "dot" else ()
    ends_of_band = (scale.at(band[0]), scale.at(band[1])) if band else None
    return BarColumn(heading, form, scale, grid, ends_of_band), marks


def rows_of(
    names: Sequence[str],
    columns: Sequence[tuple[BarColumn, Sequence[Mark | str]]],
    emphasis: frozenset[int] = frozenset(),
) -> tuple[Row, ...]:
    """Put the marks of columns beside the names of their rows.

    emphasis: places of rows that stand out
    """
    return tuple(
        Row(truncate(name, LABEL), name, tuple(marks[at] for _, marks in columns), at in emphasis)
        for at, name in enumerate(names)
    )


def _mark(one: BarValue, scale: Scale, form: Form, unit: str) -> Mark | str:
    if not finite([one.value]):
        return one.why
    value = float(one.value or 0.0)
    at = scale.at(value)
    start, end = sorted((scale.at(0.0), at)) if form == "bar" else (at, at)
    low, high = one.low, one.high
    known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    left, right = (scale.at(low or 0.0), scale.at(high or 0.0)) if known else (None, None)
    text = written(value, unit) + one.sign
    return Mark(
        start,
        round(end - start, 2),
        at,
        left,
        right,
        text,
        (*([_interval(low or 0.0, high or 0.0, unit)] if known else []), *one.small),
        one.style,
        value,
    )


def written(value: float, unit: str) -> str:
    """Write a value of a chart; counts are whole, per cent have one decimal.

    >>> written(0.5, ""), written(1200.0, COUNT), written(43.21, "%")
    ('0.500', '1\u202f200', '43.2 %')
    """
    if unit == "%":
        return f"{value:.1f} %"
    return count(round(value)) if unit == COUNT else number(value, unit)


def _interval(low: float, high: float, unit: str) -> str:
    ends = [written(end, unit).removesuffix(" %") for end in (low, high)]
    return (" to " if "−" in ends[0] + ends[1] else "–").join(ends)

"""Rows of bars or dots with intervals: a table whose numbers are drawn beside themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from evals.reporting.charts.scales import Bounds, Scale, Tick, domain, finite, from_zero, ticks
from evals.reporting.display import MISSING, count, interval, number, trimmed

Form = Literal["bar", "dot"]
LABEL = 80  # characters of a name
TICKS = 5


@dataclass(frozen=True)
class Figure:
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
class Column:
    """One number of each row.

    form: bars begin at 0; dots leave it out where it is far
    ticks: of dots, whose scale nobody guesses
    band: from and to, in percent: what other intervals are held against
    """

    heading: str
    unit: str
    about: str
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
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    rest: str = ""


def column(
    heading: str,
    figures: Sequence[Figure],
    *,
    unit: str = "",
    about: str = "",
    form: Form = "bar",
    bounds: Bounds = (None, None),
    band: tuple[float, float] | None = None,
) -> tuple[Column, list[Mark | str]]:
    """Return a column and the marks of its rows.

    band: an interval that the others are held against

    >>> head, (one, none) = column("Recall", [Figure(0.5, 0.4, 1.0), Figure(None, why="not run")])
    >>> (one.start, one.width, one.left, one.right, one.text, one.lines), none
    ((0.0, 50.0, 40.0, 100.0, '0.500', ('0.400–1.000',)), 'not run')
    """
    ends = [end for one in figures for end in (one.value, one.low, one.high)]
    dots = Scale(*domain(ends, bounds), left=1.0, right=99.0)
    scale = dots if form == "dot" else Scale(*from_zero(ends))
    marks = [_mark(one, scale, form, unit) for one in figures]
    grid = ticks(scale, TICKS, unit) if form == "dot" else ()
    ends_of_band = (scale.at(band[0]), scale.at(band[1])) if band else None
    return Column(heading, unit, about, form, scale, grid, ends_of_band), marks


def rows_of(
    names: Sequence[str],
    columns: Sequence[tuple[Column, Sequence[Mark | str]]],
    emphasis: frozenset[int] = frozenset(),
) -> tuple[Row, ...]:
    """Put the marks of columns beside the names of their rows.

    emphasis: places of rows that stand out
    """
    return tuple(
        Row(trimmed(name, LABEL), name, tuple(marks[at] for _, marks in columns), at in emphasis)
        for at, name in enumerate(names)
    )


def _mark(one: Figure, scale: Scale, form: Form, unit: str) -> Mark | str:
    if not finite([one.value]):
        return one.why
    value = float(one.value or 0.0)
    at = scale.at(value)
    start, end = sorted((scale.at(0.0), at)) if form == "bar" else (at, at)
    ends = interval(one.low, one.high, unit)
    known = ends != MISSING
    left, right = (scale.at(end) for end in (one.low or 0.0, one.high or 0.0)) if known else (None, None)
    text = written(value, unit) + one.sign
    return Mark(
        start,
        round(end - start, 2),
        at,
        left,
        right,
        text,
        (*([ends] if known else []), *one.small),
        one.style,
        value,
    )


def written(value: float, unit: str) -> str:
    """Write a value of a chart; counts are whole, US dollars have four decimals.

    >>> written(0.5, ""), written(1200.0, "calls"), written(0.01234, "US$")
    ('0.500', '1\u202f200', '0.0123')
    """
    if unit == "US$":
        return f"{value:.4f}"
    return count(round(value)) if unit in ("calls", "sum") else number(value, unit)

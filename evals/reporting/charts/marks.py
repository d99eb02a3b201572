"""Scales, rows of bars and dots, planes of points and lines, heat maps, and bars of shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

from rag_assay.evals.reporting.display import count, number, truncate

Bounds = tuple[float | None, float | None]
DECADES = 1.5
"""Powers of ten between the least and the largest cost, from which on a scale is logarithmic."""


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` onto `left` to `right`, in percent.

    logarithmic: equal ratios are equally far apart; `low` is above 0 then
    """

    low: float
    high: float
    left: float = 0.0
    right: float = 100.0
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, kept within the scale's ends.

        >>> Scale(0.0, 1.0).at(0.25), Scale(0.0, 1.0, 3, 97).at(7.0), Scale(1, 100, logarithmic=True).at(10)
        (25.0, 97.0, 50.0)
        """
        low, high, place = self.low, self.high, value
        if self.logarithmic:
            low, high, place = math.log(low), math.log(high), math.log(max(value, self.low))
        share = (place - low) / (high - low)
        return round(self.left + min(1.0, max(0.0, share)) * (self.right - self.left), 2)


@dataclass(frozen=True)
class Tick:
    """A line of the grid, in percent, and its label."""

    at: float
    label: str


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that can be drawn.

    >>> finite([0.5, None, float("nan"), float("inf")])
    [0.5]
    """
    return [value for value in values if value is not None and math.isfinite(value)]


def domain(values: Iterable[float | None], bounds: Bounds = (None, None)) -> tuple[float, float]:
    """Return the range to draw: all values with a margin, within the bounds of what is drawn.

    >>> domain([0.4, 0.8], (0.0, 0.81))
    (0.38, 0.81)
    """
    known = finite(values) or [0.0]
    low, high = min(known), max(known)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    floor, ceiling = bounds
    first = low - margin if floor is None else max(floor, low - margin)
    last = high + margin if ceiling is None else min(ceiling, high + margin)
    if first > low or last < high or not last > first:  # values beyond their bounds are drawn, too
        first, last = low - margin, high + margin
    return round(first, 12), round(last, 12)


def from_zero(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the range of bars: it holds 0, where bars begin.

    >>> from_zero([0.2, 0.7]), from_zero([-0.5, 0.2]), from_zero([0.0])
    ((0.0, 0.7), (-0.5, 0.2), (0.0, 1.0))
    """
    known = [0.0, *finite(values)]
    low, high = min(known), max(known)
    return (low, high) if high > low else (0.0, 1.0)


def cost_scale(values: Iterable[float]) -> Scale:
    """Return a scale of costs: logarithmic where they lie far apart and none is 0.

    >>> cost_scale([0.001, 1.0]).logarithmic, cost_scale([1.0, 2.0]).logarithmic
    (True, False)
    """
    known = finite(values)
    if known and min(known) > 0 and math.log10(max(known) / min(known)) >= DECADES:
        return Scale(min(known) / 1.3, max(known) * 1.3, logarithmic=True)
    return Scale(*domain(known, (0.0, None)))


def ticks(scale: Scale, most: int, unit: str = "") -> tuple[Tick, ...]:
    """Return the lines of the grid of a scale, at round values, about ``most`` of them."""
    values = powers(scale.low, scale.high) if scale.logarithmic else rounded(scale.low, scale.high, most)
    return tuple(Tick(scale.at(value), tick_label(value, unit)) for value in values)


def rounded(low: float, high: float, most: int) -> list[float]:
    """Return round values from ``low`` to ``high``, at most ``most`` + 1 of them.

    >>> rounded(0.0, 1.0, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 10) + 0.0 for index in range(first, last + 1)]


def powers(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two values; the powers alone where there are many.

    >>> powers(0.8, 30)
    [1.0, 2.0, 5.0, 10.0, 20.0]
    >>> powers(0.001, 40)
    [0.001, 0.01, 0.1, 1.0, 10.0]
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) <= 2 else (1,)
    found = [float(f"{factor}e{exponent}") for exponent in exponents for factor in factors]
    return [value for value in found if low <= value <= high]


def tick_label(value: float, unit: str = "") -> str:
    """Write a value of an axis.

    >>> tick_label(0.25), tick_label(20000.0, "tokens"), tick_label(-0.5), tick_label(0.2, "s")
    ('0.25', '20\u202f000', '−0.5', '0.2 s')
    """
    text = count(round(value)) if abs(value) >= 1000 else f"{value:g}"
    return text.replace("-", "−") + (" s" if unit == "s" else "")


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
        return self.unit if self.note is None else self.note


@dataclass(frozen=True)
class BarColumn:
    """One number of each row.

    form: bars begin at 0; dots leave it out where it is far
    ticks: of dots, whose scale does not begin at 0
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
    band: Bounds = (None, None),
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
    low, high = band
    drawn = None if low is None or high is None else (scale.at(low), scale.at(high))
    return BarColumn(heading, form, scale, grid, drawn), marks


def bar_table(
    anchor: str,
    title: str,
    about: str,
    names: tuple[str, Sequence[str]],
    columns: Sequence[tuple[BarColumn, Sequence[Mark | str]]],
    rest: str = "",
    emphasis: frozenset[int] = frozenset(),
) -> BarTable:
    """Return a table of columns and their marks.

    names: their heading, and one a row
    emphasis: places of rows that stand out
    """
    corner, labels = names
    rows = tuple(
        Row(truncate(name, LABEL), name, tuple(marks[at] for _, marks in columns), at in emphasis)
        for at, name in enumerate(labels)
    )
    return BarTable(anchor, title, about, corner, tuple(head for head, _ in columns), rows, rest)


def _mark(one: BarValue, scale: Scale, form: Form, unit: str) -> Mark | str:
    if not finite([one.value]):
        return one.why
    value = float(one.value or 0.0)
    at = scale.at(value)
    start, end = sorted((scale.at(0.0), at)) if form == "bar" else (at, at)
    ends = finite([one.low, one.high])
    lines, left, right = one.small, None, None
    if len(ends) == 2:
        left, right = map(scale.at, ends)
        low, high = (written(end, unit).removesuffix(" %") for end in ends)
        lines = ((" to " if "−" in low + high else "–").join((low, high)), *lines)
    text = written(value, unit) + one.sign
    return Mark(start, round(end - start, 2), at, left, right, text, lines, one.style, value)


def written(value: float, unit: str) -> str:
    """Write a value of a chart; counts are whole, per cent have one decimal.

    >>> written(0.5, ""), written(1200.0, COUNT), written(43.21, "%")
    ('0.500', '1\u202f200', '43.2 %')
    """
    if unit == "%":
        return f"{value:.1f} %"
    return count(round(value)) if unit == COUNT else number(value, unit)


Shape = Literal["disc", "ring", "diamond", "cross"]
STYLES = 6  # of lines: a colour and a pattern of dashes each
MOST_POINTS = 250  # of a line
PIXELS = 3.0  # of a hundredth, on the narrowest screen
ROOM = 11.0  # pixels that a number needs to each side
PLACES = ((8, -7), (-17, -7), (8, 16), (-17, 16))  # of a number, from its point


@dataclass(frozen=True)
class Point:
    """A mark at a place in percent, y from the top.

    number: as in the list below the chart; None: it has none
    label: where the number is written, in pixels from the point; None: there is no room for it
    low, high: ends of its interval on the way up
    """

    x: float
    y: float
    shape: Shape
    full: str
    number: int | None = None
    low: float | None = None
    high: float | None = None
    label: tuple[int, int] | None = None


@dataclass(frozen=True)
class PlotLine:
    """A line in hundredths of width and height, y from the top, in one of `STYLES` styles.

    label: in the list below the chart; lines: further lines there
    number: at a place of it, which tells it from others without a colour
    """

    points: str
    style: int
    label: str = ""
    lines: tuple[str, ...] = ()
    number: int | None = None
    number_at: tuple[float, float] = (50.0, 50.0)


@dataclass(frozen=True)
class ChartData:
    """The values of a chart, to be read without it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rest: str = ""


@dataclass(frozen=True)
class Plane:
    """A chart of two scales.

    x_title, y_title: with the unit
    key: shape -> what it stands for, of the shapes that are there
    diagonal: what chance would be; a plane that has it is a square of two shares
    """

    kind: ClassVar[str] = "plane"
    anchor: str
    title: str
    about: str
    x_title: str
    y_title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    points: tuple[Point, ...] = ()
    lines: tuple[PlotLine, ...] = ()
    key: tuple[tuple[Shape, str], ...] = ()
    table: ChartData | None = None
    diagonal: str = ""
    rest: str = ""


def labelled(points: Sequence[Point]) -> tuple[Point, ...]:
    """Give each number a place beside its point where it meets no other number and no other numbered point.

    >>> [one.label for one in labelled([Point(50, 50, "disc", "", 1), Point(51, 49, "disc", "", 2)])]
    [(-17, -7), (8, -7)]
    """
    taken = [(one.x * PIXELS, one.y * PIXELS) for one in points if one.number]
    found: dict[int, tuple[int, int]] = {}
    for at in sorted(range(len(points)), key=lambda at: -points[at].x):
        one = points[at]
        if one.number is None:
            continue
        x, y = one.x * PIXELS, one.y * PIXELS
        for dx, dy in PLACES:
            middle = (x + dx + 4, y + dy - 4)
            if all(max(abs(middle[0] - a), abs(middle[1] - b)) > ROOM for a, b in taken if (a, b) != (x, y)):
                found[at] = (dx, dy)
                taken.append(middle)
                break
    return tuple(replace(one, label=found.get(at)) for at, one in enumerate(points))


def upward(scale: Scale) -> Scale:
    """Return the scale of a height, whose least value is at the bottom."""
    return Scale(scale.low, scale.high, scale.right, scale.left, scale.logarithmic)


def polyline(xs: Sequence[float], ys: Sequence[float], across: Scale, up: Scale) -> str:
    """Return the points of a line as SVG has them: each place once, and of many so many evenly.

    >>> polyline([0.0, 0.5, 1.0], [0.0, 1.0, 1.0], Scale(0, 1), upward(Scale(0, 1)))
    '0,100 50,0 100,0'
    """
    last = len(xs) - 1
    kept = range(len(xs)) if last < MOST_POINTS else [n * last // MOST_POINTS for n in range(MOST_POINTS + 1)]
    return " ".join(dict.fromkeys(f"{across.at(xs[at]):.5g},{up.at(ys[at]):.5g}" for at in kept))


def grid(across: Scale, up: Scale, x_unit: str = "", y_unit: str = "") -> tuple[tuple[Tick, ...], ...]:
    """Return the lines of the grid of a plane: across, and up; few enough for a narrow screen."""
    return ticks(across, 4, x_unit), ticks(up, 5, y_unit)


LEVELS = 8  # steps of the heat colour


@dataclass(frozen=True)
class HeatSquare:
    """A square of a heat map.

    text: the number; empty: there is none, and `title` says why
    level: from 0 (worst shown) to 8 (best shown); None: without a colour
    """

    text: str
    level: int | None = None
    title: str = ""
    small: str = ""
    bold: bool = False
    warn: bool = False


@dataclass(frozen=True)
class HeatRow:
    """A row, by its name and whole name, and the mean at its end.

    language: of the name; link: to where more of it stands
    """

    label: str
    squares: tuple[HeatSquare, ...]
    mean: HeatSquare | None = None
    full: str = ""
    language: str | None = None
    link: str = ""


@dataclass(frozen=True)
class HeatTable:
    """A heat map; rows named by texts are wide.

    about: what it shows, in sentences; corner: heading of the row's names
    foot: means of the columns
    """

    kind: ClassVar[str] = "heat"
    anchor: str
    title: str
    about: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]
    foot: tuple[HeatRow, ...] = ()
    mean: str = ""
    rest: str = ""
    texts: bool = False


def heat(value: float, low: float, high: float, higher_is_better: bool) -> int:
    """Return the step of the heat colour from 0 to 8 for a value between the least and the greatest shown.

    >>> heat(0.2, 0.2, 0.6, True), heat(0.4, 0.2, 0.6, True), heat(0.2, 0.2, 0.6, False), heat(1, 1, 1, True)
    (0, 4, 8, 4)
    """
    if not high > low:
        return LEVELS // 2
    share = (value - low) / (high - low)
    return round(LEVELS * (share if higher_is_better else 1 - share))


WIDTH = 120.0
STEPS = 8  # shades, from the lowest value to the highest


class BarSegment(NamedTuple):
    """A part of a bar, in user units; shade: 0 to `STEPS`, None for answers that people differ in."""

    x: float
    width: float
    shade: int | None


Bar = tuple[BarSegment, ...]


def bar(counts: Sequence[int], between: int) -> Bar:
    """Lay out a bar, the best values on the left and what lies between any on the right.

    counts: answers at each anchor, the best first

    >>> [tuple(piece) for piece in bar([1, 0, 2], 1)]
    [(0.0, 30.0, 8), (30.0, 60.0, 0), (90.0, 30.0, None)]
    """
    last = max(1, len(counts) - 1)
    shades: list[int | None] = [round(STEPS * (last - at) / last) for at in range(len(counts))]
    total = max(1, sum(counts) + between)
    pieces, x = [], 0.0
    for n, shade in zip([*counts, between], [*shades, None], strict=True):
        width = WIDTH * n / total
        if n:
            pieces.append(BarSegment(round(x, 2), round(width, 2), shade))
        x += width
    return tuple(pieces)

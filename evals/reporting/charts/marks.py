"""Scales, rows of bars and dots, planes of points and lines, heat maps, and bars of shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from markupsafe import Markup

from rag_assay.evals.reporting.display import count, number, truncate
from rag_assay.evals.reporting.sections import Column, Point, Table, TableFigure, Tick, missing

Bounds = tuple[float | None, float | None]
DECADES = 1.5
"""Powers of ten between the least and the largest cost, from which on a scale is logarithmic."""


@dataclass(frozen=True)
class Scale:
    """Map `low`…`high` onto `left`…`right` in percent; a logarithmic scale needs `low` above 0."""

    low: float
    high: float
    left: float = 0.0
    right: float = 100.0
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return a place within the scale's ends.

        >>> Scale(0.0, 1.0).at(0.25), Scale(0.0, 1.0, 3, 97).at(7.0), Scale(1, 100, logarithmic=True).at(10)
        (25.0, 97.0, 50.0)
        """
        low, high, place = self.low, self.high, value
        if self.logarithmic:
            low, high, place = math.log(low), math.log(high), math.log(max(value, self.low))
        share = (place - low) / (high - low)
        return round(self.left + min(1.0, max(0.0, share)) * (self.right - self.left), 2)


def finite(values: Iterable[float | None]) -> list[float]:
    """
    >>> finite([0.5, None, float("nan"), float("inf")])
    [0.5]
    """
    return [value for value in values if value is not None and math.isfinite(value)]


def domain(values: Iterable[float | None], bounds: Bounds = (None, None)) -> tuple[float, float]:
    """Return the values' range with a margin, within the bounds.

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
    """Return the values' range with 0 in it.

    >>> from_zero([0.2, 0.7]), from_zero([-0.5, 0.2]), from_zero([0.0])
    ((0.0, 0.7), (-0.5, 0.2), (0.0, 1.0))
    """
    known = [0.0, *finite(values)]
    low, high = min(known), max(known)
    return (low, high) if high > low else (0.0, 1.0)


def cost_scale(values: Iterable[float]) -> Scale:
    """Return a logarithmic scale where costs lie far apart and none is 0.

    >>> cost_scale([0.001, 1.0]).logarithmic, cost_scale([1.0, 2.0]).logarithmic
    (True, False)
    """
    known = finite(values)
    if known and min(known) > 0 and math.log10(max(known) / min(known)) >= DECADES:
        return Scale(min(known) / 1.3, max(known) * 1.3, logarithmic=True)
    return Scale(*domain(known, (0.0, None)))


def ticks(scale: Scale, most: int, unit: str = "") -> tuple[Tick, ...]:
    """Return about ``most`` grid lines at round values."""
    values = powers(scale.low, scale.high) if scale.logarithmic else rounded(scale.low, scale.high, most)
    return tuple(Tick(scale.at(value), tick_label(value, unit)) for value in values)


def rounded(low: float, high: float, most: int) -> list[float]:
    """Return at most ``most`` + 1 round values.

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
    """
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
    """A number to draw.

    value: None, or not finite: there is none, and `why` says why
    small: further lines below it, beside its interval
    style: class of its mark; sign: written behind it
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
    """A drawn number; places in percent.

    start, width: of the bar; of a dot its place and 0
    left, right: ends of the interval, if any
    text: the value; lines: interval and what else stands below it
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
class BarColumn:
    """One number of each row.

    form: bars begin at 0, dots need not, and have `ticks`
    band: from and to, in percent: what other intervals are compared with
    """

    heading: Column
    form: Form
    scale: Scale
    ticks: tuple[Tick, ...] = ()
    band: tuple[float, float] | None = None


def column(
    heading: Column,
    figures: Sequence[BarValue],
    unit: str = "",
    *,
    form: Form = "bar",
    bounds: Bounds = (None, None),
    band: Bounds = (None, None),
) -> tuple[BarColumn, list[Mark | str]]:
    """Return a column and the marks of its rows; bounds: of the values; band: an interval to compare with.

    >>> values = [BarValue(0.5, 0.4, 1.0), BarValue(None, why="not run")]
    >>> head, (one, none) = column(Column("Recall"), values)
    >>> (one.start, one.width, one.left, one.right, one.text, one.lines), none
    ((0.0, 50.0, 40.0, 100.0, '0.500', ('0.400–1.000',)), 'not run')
    """
    ends = [end for one in figures for end in (one.value, one.low, one.high)]
    dots = Scale(*domain(ends, bounds), left=1.0, right=99.0)
    scale = dots if form == "dot" else Scale(*from_zero(ends))
    marks = [_mark(one, scale, form, unit) for one in figures]
    grid = ticks(scale, TICKS, unit) if form == "dot" else ()
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
) -> Table:
    """names: their heading, and one a row; emphasis: rows that stand out"""
    corner, labels = names
    heads = [Column(corner, style="cell")]
    for at, (head, _) in enumerate(columns):
        if head.ticks:
            heads.append(Column("", style="drawn", drawn=_axis(head, f"{anchor}-{at}")))
        heads.append(replace(head.heading, is_number=True, style="" if head.ticks else "with-bar"))
    rows = [
        (
            TableFigure(truncate(name, LABEL), why=name if len(name) > LABEL else ""),
            *(
                place
                for at, (head, marks) in enumerate(columns)
                for place in _places(head, marks[row], f"{anchor}-{at}")
            ),
        )
        for row, name in enumerate(labels)
    ]
    style = "bars one" if len(columns) == 1 else "bars"
    first = dict.fromkeys(emphasis, "first")
    return Table(title, heads, rows, rest, style, anchor, about, row_styles=first)


def _places(column: BarColumn, mark: Mark | str, grid: str) -> Sequence[TableFigure]:
    if isinstance(mark, str):
        return [*([TableFigure("")] if column.ticks else []), missing(mark)]
    if column.ticks:
        return TableFigure("", drawn=drawn(column, mark, grid)), TableFigure(mark.text, mark.lines)
    return (TableFigure(mark.text, mark.lines, drawn=drawn(column, mark)),)


def _axis(column: BarColumn, grid: str) -> Markup:
    line = Markup('<line x1="{0}%" x2="{0}%" y1="0" y2="100%"/>')
    label = Markup('<text x="{}%" y="12">{}</text>')
    return Markup(
        '<svg class="axis" aria-hidden="true" width="100%" height="16"><defs><g id="{}">{}</g></defs>{}</svg>'
    ).format(
        grid,
        Markup("").join(line.format(tick.at) for tick in column.ticks),
        Markup("").join(label.format(tick.at, tick.label) for tick in column.ticks),
    )


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


SHAPES = {
    "tied": "diamond",
    "within": "diamond",
    "unranked": "ring",
}  # style of a dot -> its shape; of all others a disc


def drawn(column: BarColumn, mark: Mark, lines: str = "") -> Markup:
    """Draw a number as SVG: a bar from 0 or a dot, with its interval; lines: id of its grid."""
    parts = [Markup('<use class="lines" href="#{}"/>').format(lines)] if lines else []
    if column.band:
        left, right = column.band
        band = Markup('<rect class="band" x="{}%" width="{}%" height="100%"/>')
        parts.append(band.format(left, round(right - left, 2)))
    if column.form == "bar":
        parts.append(
            Markup('<rect class="of" x="{}%" y="2" width="{}%" height="8"/>').format(mark.start, mark.width)
        )
    if mark.left is not None:
        parts.append(Markup('<line x1="{}%" x2="{}%" y1="50%" y2="50%"/>').format(mark.left, mark.right))
    if column.form == "dot":
        shape = SHAPES.get(mark.style, "disc")
        parts.append(Markup('<use href="#shape-{}" x="{}%" y="11"/>').format(shape, mark.at))
    return Markup('<svg class="mark {} {}" aria-hidden="true" width="100%" height="{}">{}</svg>').format(
        column.form, mark.style, 22 if column.form == "dot" else 12, Markup("").join(parts)
    )


def written(value: float, unit: str) -> str:
    """Write a value of a chart: counts are whole, percentages have one decimal.

    >>> written(0.5, ""), written(1200.0, COUNT), written(43.21, "%")
    ('0.500', '1\u202f200', '43.2 %')
    """
    if unit == "%":
        return f"{value:.1f} %"
    return count(round(value)) if unit == COUNT else number(value, unit)


STYLES = 6  # of lines: a colour and a pattern of dashes each
MOST_POINTS = 250  # of a line
PIXELS = 3.0  # of a hundredth, on the narrowest screen
ROOM = 11.0  # pixels that a number needs to each side
PLACES = ((8, -7), (-17, -7), (8, 16), (-17, 16))  # of a number, from its point


def labelled(points: Sequence[Point]) -> tuple[Point, ...]:
    """Place each number beside its point where it meets no other number or numbered point.

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
    """Return the scale of a height: the least value is at the bottom."""
    return Scale(scale.low, scale.high, scale.right, scale.left, scale.logarithmic)


def polyline(xs: Sequence[float], ys: Sequence[float], across: Scale, up: Scale) -> str:
    """Return a line's points for SVG: each place once, thinned evenly.

    >>> polyline([0.0, 0.5, 1.0], [0.0, 1.0, 1.0], Scale(0, 1), upward(Scale(0, 1)))
    '0,100 50,0 100,0'
    """
    last = len(xs) - 1
    kept = range(len(xs)) if last < MOST_POINTS else [n * last // MOST_POINTS for n in range(MOST_POINTS + 1)]
    return " ".join(dict.fromkeys(f"{across.at(xs[at]):.5g},{up.at(ys[at]):.5g}" for at in kept))


def grid(across: Scale, up: Scale, x_unit: str = "", y_unit: str = "") -> tuple[tuple[Tick, ...], ...]:
    return ticks(across, 4, x_unit), ticks(up, 5, y_unit)


LEVELS = 8  # steps of the heat colour


def heat(value: float, low: float, high: float, higher_is_better: bool) -> int:
    """Return the step of the heat colour, 0 to 8, between the least and the greatest value shown.

    >>> heat(0.2, 0.2, 0.6, True), heat(0.4, 0.2, 0.6, True), heat(0.2, 0.2, 0.6, False), heat(1, 1, 1, True)
    (0, 4, 8, 4)
    """
    if not high > low:
        return LEVELS // 2
    share = (value - low) / (high - low)
    return round(LEVELS * (share if higher_is_better else 1 - share))


WIDTH = 120.0
STEPS = 8  # shades, from the lowest value to the highest


def bar(counts: Sequence[int], between: int) -> Markup:
    """Draw answers by value; counts: at each anchor, the best first.

    >>> str(bar([1, 0, 2], 1)).count("<rect"), 'class="s8" x="0.0" y="0" width="30.0"' in bar([1, 0, 2], 1)
    (3, True)
    """
    last = max(1, len(counts) - 1)
    shades = [*(f"s{round(STEPS * (last - at) / last)}" for at in range(len(counts))), "between"]
    total = max(1, sum(counts) + between)
    pieces, x = [], 0.0
    for n, shade in zip([*counts, between], shades, strict=True):
        width = WIDTH * n / total
        if n:
            piece = Markup('<rect class="{}" x="{}" y="0" width="{}" height="12"/>')
            pieces.append(piece.format(shade, round(x, 2), round(width, 2)))
        x += width
    return Markup(
        '<svg class="shares" aria-hidden="true" viewBox="0 0 120 12" width="120" height="12" '
        'preserveAspectRatio="none">{}</svg>'
    ).format(Markup("").join(pieces))

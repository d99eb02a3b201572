"""Scales, rows of bars and dots, planes of points and lines, heat maps, and bars of shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from rag_assay.evals.reporting.display import count, number, truncate
from rag_assay.evals.reporting.sections import Column, Point, Table, TableFigure, Tick, missing

Bounds = tuple[float | None, float | None]
DECADES = 1.5  # powers of ten between the least and the largest cost, from which on a scale is logarithmic


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
    return [value for value in values if value is not None and math.isfinite(value)]


def domain(values: Iterable[float | None], bounds: Bounds = (None, None)) -> tuple[float, float]:
    """Return the values' range with a margin, within the bounds."""
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
    """Return the values' range with 0 in it."""
    known = [0.0, *finite(values)]
    low, high = min(known), max(known)
    return (low, high) if high > low else (0.0, 1.0)


def cost_scale(values: Iterable[float]) -> Scale:
    """Return a logarithmic scale where costs lie far apart and none is 0."""
    known = finite(values)
    if known and min(known) > 0 and math.log10(max(known) / min(known)) >= DECADES:
        return Scale(min(known) / 1.3, max(known) * 1.3, logarithmic=True)
    return Scale(*domain(known, (0.0, None)))


def ticks(scale: Scale, most: int, unit: str = "") -> tuple[Tick, ...]:
    """Return about ``most`` grid lines at round values."""
    values = powers(scale.low, scale.high) if scale.logarithmic else rounded(scale.low, scale.high, most)
    return tuple(Tick(scale.at(value), tick_label(value, unit)) for value in values)


def rounded(low: float, high: float, most: int) -> list[float]:
    """Return at most ``most`` + 1 round values."""
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


LABEL = 80  # characters of a name
TICKS = 5
COUNT = "count"  # unit of whole numbers


@dataclass(frozen=True)
class BarValue:
    """value: None, or not finite: there is none, and `why` says why
    small: further lines below it, beside its interval; style: class of its mark; sign: written behind it
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    small: tuple[str, ...] = ()
    style: str = ""
    why: str = "no value"
    sign: str = ""


@dataclass(frozen=True)
class BarColumn:
    """A drawn number of each row, in one column, or in two where dots have a grid."""

    heads: tuple[Column, ...]
    rows: Sequence[Sequence[TableFigure]]
    scale: Scale


def column(
    heading: Column,
    figures: Sequence[BarValue],
    unit: str = "",
    *,
    grid: str = "",
    bounds: Bounds = (None, None),
    band: Bounds = (None, None),
) -> BarColumn:
    """Draw numbers as bars from 0, or as dots over a grid (its id); bounds: of the values; band: an interval
    behind.
    """
    ends = [end for one in figures for end in (one.value, one.low, one.high)]
    scale = Scale(*domain(ends, bounds), left=1.0, right=99.0) if grid else Scale(*from_zero(ends))
    low, high = band
    behind = [] if low is None or high is None else [_band(scale.at(low), scale.at(high))]
    if grid:
        behind = [Markup('<use class="lines" href="#{}"/>').format(grid), *behind]
    rows = [_figures(one, scale, unit, behind, is_dot=bool(grid)) for one in figures]
    head = replace(heading, is_number=True, style="" if grid else "with-bar")
    axis = [Column("", style="drawn", drawn=_axis(ticks(scale, TICKS, unit), grid))] if grid else []
    return BarColumn((*axis, head), rows, scale)


def bar_table(
    anchor: str,
    title: str,
    about: str,
    names: tuple[str, Sequence[str]],
    columns: Sequence[BarColumn],
    rest: str = "",
    emphasis: frozenset[int] = frozenset(),
) -> Table:
    """names: their heading, and one a row; emphasis: rows that stand out"""
    corner, labels = names
    heads = [Column(corner, style="cell"), *(head for one in columns for head in one.heads)]
    rows = []
    for row, name in enumerate(labels):
        named = TableFigure(truncate(name, LABEL), why=name if len(name) > LABEL else "")
        rows.append((named, *(figure for one in columns for figure in one.rows[row])))
    style = "bars one" if len(columns) == 1 else "bars"
    first = dict.fromkeys(emphasis, "first")
    return Table(title, heads, rows, rest, style, anchor, about, row_styles=first)


def _band(left: float, right: float) -> Markup:
    band = Markup('<rect class="band" x="{}%" width="{}%" height="100%"/>')
    return band.format(left, round(right - left, 2))


def _axis(lines: Sequence[Tick], grid: str) -> Markup:
    line = Markup('<line x1="{0}%" x2="{0}%" y1="0" y2="100%"/>')
    label = Markup('<text x="{}%" y="12">{}</text>')
    return Markup(
        '<svg class="axis" aria-hidden="true" width="100%" height="16"><defs><g id="{}">{}</g></defs>{}</svg>'
    ).format(
        grid,
        Markup("").join(line.format(tick.at) for tick in lines),
        Markup("").join(label.format(tick.at, tick.label) for tick in lines),
    )


SHAPES = {"tied": "diamond", "within": "diamond", "unranked": "ring"}
"""Style of a dot -> its shape; of all others a disc."""


def _figures(
    one: BarValue, scale: Scale, unit: str, behind: Sequence[Markup], *, is_dot: bool
) -> Sequence[TableFigure]:
    """Draw a number and its interval as SVG, beside its text; behind: what a band and a grid are drawn as"""
    if not finite([one.value]):
        return [*([TableFigure("")] if is_dot else []), missing(one.why)]
    value = float(one.value or 0.0)
    at, parts, lines = scale.at(value), [*behind], one.small
    if not is_dot:
        start, end = sorted((scale.at(0.0), at))
        bar = Markup('<rect class="of" x="{}%" y="2" width="{}%" height="8"/>')
        parts.append(bar.format(start, round(end - start, 2)))
    ends = finite([one.low, one.high])
    if len(ends) == 2:
        low, high = (written(end, unit).removesuffix(" %") for end in ends)
        lines = ((" to " if "−" in low + high else "–").join((low, high)), *lines)
        line = Markup('<line x1="{}%" x2="{}%" y1="50%" y2="50%"/>')
        parts.append(line.format(*map(scale.at, ends)))
    if is_dot:
        shape = SHAPES.get(one.style, "disc")
        parts.append(Markup('<use href="#shape-{}" x="{}%" y="11"/>').format(shape, at))
    form, height = ("dot", 22) if is_dot else ("bar", 12)
    svg = Markup('<svg class="mark {} {}" aria-hidden="true" width="100%" height="{}">{}</svg>')
    drawn = svg.format(form, one.style, height, Markup("").join(parts))
    text = written(value, unit) + one.sign
    if is_dot:
        return TableFigure("", drawn=drawn), TableFigure(text, lines)
    return (TableFigure(text, lines, drawn=drawn),)


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
    """Place each number beside its point where it meets no other number or numbered point."""
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
    """Return a line's points for SVG: each place once, thinned evenly."""
    last = len(xs) - 1
    kept = range(len(xs)) if last < MOST_POINTS else [n * last // MOST_POINTS for n in range(MOST_POINTS + 1)]
    return " ".join(dict.fromkeys(f"{across.at(xs[at]):.5g},{up.at(ys[at]):.5g}" for at in kept))


def grid(across: Scale, up: Scale) -> tuple[tuple[Tick, ...], ...]:
    return ticks(across, 4), ticks(up, 5)


LEVELS = 8  # steps of the heat colour


def heat(value: float, low: float, high: float, higher_is_better: bool) -> int:
    """Return the step of the heat colour, 0 to 8, between the least and the greatest value shown."""
    if not high > low:
        return LEVELS // 2
    share = (value - low) / (high - low)
    return round(LEVELS * (share if higher_is_better else 1 - share))


WIDTH = 120.0
STEPS = 8  # shades, from the lowest value to the highest


def bar(counts: Sequence[int], between: int) -> Markup:
    """Draw answers by value; counts: at each anchor, the best first."""
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

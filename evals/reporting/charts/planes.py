"""Points and lines in a plane of two scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from rag_assay.evals.reporting.charts.scales import Scale, Tick, ticks

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

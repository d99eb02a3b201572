"""Points and lines in a plane of two scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from evals.reporting.charts.scales import Scale, Tick, ticks

Shape = Literal["disc", "ring", "diamond", "cross"]
STYLES = 6  # of lines: a colour and a pattern of dashes each


@dataclass(frozen=True)
class Point:
    """A mark at a place in percent, y from the top.

    number: written beside it, as in the list below the chart; None: it has none
    low, high: ends of its interval on the way up
    """

    x: float
    y: float
    shape: Shape
    full: str
    number: int | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
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
class Table:
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
    diagonal: what chance would be
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
    lines: tuple[Line, ...] = ()
    key: tuple[tuple[Shape, str], ...] = ()
    table: Table | None = None
    diagonal: str = ""
    rest: str = ""


def upward(scale: Scale) -> Scale:
    """Return the scale of a height, whose least value is at the bottom."""
    return Scale(scale.low, scale.high, scale.right, scale.left, scale.logarithmic)


def polyline(xs: Sequence[float], ys: Sequence[float], across: Scale, up: Scale) -> str:
    """Return the points of a line as SVG has them; steps of less than a hundredth are left out.

    >>> polyline([0.0, 0.5, 1.0], [0.0, 1.0, 1.0], Scale(0, 1), upward(Scale(0, 1)))
    '0,100 50,0 100,0'
    """
    pairs = dict.fromkeys(
        f"{across.at(x):.5g},{up.at(y):.5g}" for x, y in zip(xs, ys, strict=True)
    )  # in order, each place once
    return " ".join(pairs)


def grid(across: Scale, up: Scale, x_unit: str = "", y_unit: str = "") -> tuple[tuple[Tick, ...], ...]:
    """Return the lines of the grid of a plane: across, and up; few enough for a narrow screen."""
    return ticks(across, 4, x_unit), ticks(up, 5, y_unit)

"""Heat maps: tables whose squares are the darker the better, each with its number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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

"""Bars that show how many answers have each value, in shades of one colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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

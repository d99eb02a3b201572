"""One factor at a time: a base cell, and every cell that differs from it on one axis."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.study.cells import Cell

AXES = ("chunking", "embedder", "retriever", "generator")


def one_factor(cells: Sequence[Cell], base: str | None = None) -> list[Cell]:
    """Return the base cell and those that differ from it on at most one axis, in their order.

    With n(1) … n(4) names on the axes that is 1 + sum of (n(i) - 1) cells in place of their product. What two
    axes do together is not in it: a name that is good only beside another one is missed, and no interaction
        can
    be estimated. Cells that read no ranking are of no chunking, embedder or retriever: they differ from the
    base by their generator alone.

    Args:
        cells: of the whole grid.
        base: name of the base cell without the study; None: the first cell that reads a ranking.

    >>> cells = [Cell("s", t, "e", r, "g") for t in ("t1", "t2") for r in ("r1", "r2")]
    >>> [one.short for one in one_factor(cells)]
    ['t1.e.r1.g', 't1.e.r2.g', 't2.e.r1.g']
    """
    if not cells:
        return []
    first = next((one for one in cells if one.has_axes), cells[0])
    origin = next((one for one in cells if one.short == base), first)
    return [one for one in cells if not one.has_axes or _apart(one, origin) <= 1]


def _apart(one: Cell, other: Cell) -> int:
    return sum(getattr(one, axis) != getattr(other, axis) for axis in AXES)


def combinations(cells: Sequence[Cell]) -> int:
    """Return of how many pairs of axes a grid has several names on both: so many interactions there may be.

    >>> combinations([Cell("s", t, "e", r, "g") for t in ("t1", "t2") for r in ("r1", "r2")])
    1
    """
    several = sum(len({getattr(one, axis) for one in cells if one.has_axes}) > 1 for axis in AXES)
    return several * (several - 1) // 2

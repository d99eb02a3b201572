"""A random search: cells in an order that the seed draws, as many as the budget allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.identity import digest

Fits = Callable[[Sequence[Cell]], bool]
"""Whether some cells together are within the budget; if they are, so are fewer of them."""


def draw_cells(cells: Sequence[Cell], seed: int, fits: Fits, always: Sequence[Cell] = ()) -> list[Cell]:
    """Return the cells of a random search, in the order of the grid.

    Cells are ordered by the digest of the seed and their name, and the first ones are taken, as many as fit:
    so a larger budget holds the cells of a smaller one, and a cell more in the grid moves one at most. Random
    points cover an axis that matters better than a grid of as many points (Bergstra and Bengio, JMLR 2012).

    Args:
        cells: of the whole grid.
        seed: of the search.
        fits: whether so many cells are within the budget.
        always: cells that are taken in any case, as those that others are compared with.

    >>> cells = [Cell("s", t, "e", "r", "g") for t in ("t1", "t2", "t3")]
    >>> [one.chunking for one in draw_cells(cells, 7, lambda some: len(some) <= 2)]
    ['t1', 't3']
    """
    kept = [one for one in cells if one in always]
    order = sorted((one for one in cells if one not in always), key=lambda one: digest([seed, one.short]))
    low, high = 0, len(order)
    while low < high:  # the most that fit; what one cell costs is not known alone, for cells share calls
        middle = (low + high + 1) // 2
        if fits([*kept, *order[:middle]]):
            low = middle
        else:
            high = middle - 1
    chosen = {*kept, *order[:low]}
    return [one for one in cells if one in chosen]

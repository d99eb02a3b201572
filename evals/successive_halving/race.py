"""Random search, and a whole race over values that are known, for benchmarks and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rag_assay.evals.statistics.question_clusters import ALONE, Clustering
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.successive_halving.elimination import EliminatedCell, EliminationRules, Values, look
from rag_assay.evals.successive_halving.rungs import stays
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


class Raced(NamedTuple):
    """How a race ended.

    left: cells that were asked all questions; dropped: rung, from 1 -> the cells that it dropped
    evaluations: how many times a cell was asked a question
    """

    left: list[str]
    dropped: dict[int, list[EliminatedCell]]
    evaluations: int


def race(
    cells: Sequence[str],
    values: Values,
    blocks: Sequence[Sequence[str]],
    rules: EliminationRules,
    clusters: Clustering = ALONE,
    *,
    cap: int | None = None,
) -> Raced:
    """Race cells over blocks of questions; after each but the last some may be dropped.

    Args:
        cells: that race.
        values: of all cells and questions.
        blocks: of `rungs`.
        rules: `keep` of them is not read: the cap decides.
        cap: of evaluations; None: no such bound.
    """
    left, dropped, spent = list(cells), dict[int, list[EliminatedCell]](), 0
    asked: set[str] = set()
    for rung, block in enumerate(blocks, 1):
        asked |= set(block)
        spent += len(left) * len(block)
        if rung == len(blocks) or len(left) < 2:
            continue
        known = {cell: {q: v for q, v in values[cell].items() if q in asked} for cell in left}
        ahead = [len(one) for one in blocks[rung:]]
        found = look(left, known, rules, clusters)
        if cap is not None:
            keep = stays([1.0] * len(found.left), ahead, spent, cap)
            found = look(left, known, rules._replace(keep=keep), clusters)
        dropped[rung] = found.dropped
        left = found.left
    return Raced(left, dropped, spent)

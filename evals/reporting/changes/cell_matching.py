"""Which cell of one result is which of another: by the names of its axes, or by its recipes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rag_assay.evals.reporting.changes.entry import HistoryEntry


@dataclass(frozen=True)
class MatchedCells:
    """Pairs of cells, and those that only one side has; without the names of the studies.

    by_names: how many pairs have the same names; the others have the same recipes under other names
    """

    pairs: tuple[tuple[str, str], ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    by_names: int


def matched(
    before: HistoryEntry, after: HistoryEntry, old: Sequence[str], new: Sequence[str]
) -> MatchedCells:
    """Match cells: first those of equal names, then of the rest those of equal recipes, one with one."""
    pairs = [(cell, cell) for cell in old if cell in set(new)]
    same = len(pairs)
    left = [cell for cell in old if cell not in set(new)]
    others = [cell for cell in new if cell not in set(old)]
    by_recipe: dict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for cell in others:
        by_recipe[_recipes(after, cell)].append(cell)
    for cell in list(left):
        recipes = _recipes(before, cell)
        if None not in recipes and by_recipe.get(recipes):
            other = by_recipe[recipes].pop(0)
            pairs.append((cell, other))
            left.remove(cell)
            others.remove(other)
    return MatchedCells(tuple(pairs), tuple(left), tuple(others), same)


def _recipes(entry: HistoryEntry, cell: str) -> tuple[str | None, ...]:
    """Return the digests of a cell's four parts; None for one that is not known."""
    kinds = ("chunking", "embedder", "retriever", "generator")
    found = []
    for kind, name in zip(kinds, cell.split("."), strict=False):
        mine = entry.recipes.get(f"{kind}.{entry.study}.{name}") or entry.recipes.get(f"{kind}.{name}")
        found.append(name if name in {"none", "-"} else mine)
    return tuple(found)

"""Full crossings in a grid that has gaps: where the levels of an axis can be compared on equal terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

Place: TypeAlias = tuple[str, ...]  # a cell: its level on each axis


class Crossing(NamedTuple):
    """Levels of some axes, and the contexts (levels of all other axes) in which every combination is there.

    levels: of each of the axes, shape (axes, levels of the axis)
    """

    levels: tuple[tuple[str, ...], ...]
    contexts: tuple[Place, ...]
    left_out: tuple[tuple[str, ...], ...]
    unused: int

    def place(self, axes: Sequence[int], own: Sequence[str], context: Place) -> Place:
        found = list(context)
        for axis, level in sorted(zip(axes, own, strict=True)):
            found.insert(axis, level)
        return tuple(found)


def find_crossing(places: Collection[Place], axes: Sequence[int]) -> Crossing | None:
    """Return a crossing to compare levels in; None where no two levels of each of the axes meet in a context.

    A context counts only if it has every level, for means over other contexts would compare other things.
    Levels are taken away one after the other, those with the fewest cells first; of what is left, the
    crossing of the most levels is chosen that keeps at least half as many contexts as the one with the most.

    >>> grid = [(size, name) for size in "sm" for name in ("bm25", "dense", "rrf")] + [("l", "dense")]
    >>> found = find_crossing(grid, [0])
    >>> found.levels, found.contexts, found.left_out, found.unused
    ((('m', 's'),), (('bm25',), ('dense',), ('rrf',)), (('l',),), 1)
    """
    everywhere = set(places)
    levels = [sorted({place[axis] for place in everywhere}) for axis in axes]
    whole = tuple(map(tuple, levels))
    all_contexts = {_rest(place, axes) for place in everywhere}
    found: list[tuple[tuple[tuple[str, ...], ...], list[Place]]] = []
    while all(len(names) > 1 for names in levels):
        contexts = _contexts(everywhere, axes, levels)
        if contexts:
            found.append((tuple(map(tuple, levels)), contexts))
        if len(contexts) == len(all_contexts):
            break  # fewer levels can have no more contexts
        _drop_rarest(everywhere, axes, levels)
    if not found:
        return None
    most = max(len(contexts) for _, contexts in found)
    able = (one for one in found if 2 * len(one[1]) >= most)
    chosen, contexts = max(able, key=lambda one: prod(map(len, one[0])))
    pairs = zip(whole, chosen, strict=True)
    left_out = tuple(tuple(name for name in names if name not in kept) for names, kept in pairs)
    used = prod(map(len, chosen)) * len(contexts)
    return Crossing(chosen, tuple(contexts), left_out, len(everywhere) - used)


def _contexts(places: Collection[Place], axes: Sequence[int], levels: Sequence[Sequence[str]]) -> list[Place]:
    wanted = set(product(*levels))
    found: dict[Place, set[Place]] = {}
    for place in places:
        own = tuple(place[axis] for axis in axes)
        if own in wanted:
            found.setdefault(_rest(place, axes), set()).add(own)
    return sorted(context for context, own in found.items() if len(own) == len(wanted))


def _rest(place: Place, axes: Sequence[int]) -> Place:
    return tuple(level for at, level in enumerate(place) if at not in axes)


def _drop_rarest(places: Collection[Place], axes: Sequence[int], levels: list[list[str]]) -> None:
    own = list(zip(axes, levels, strict=True))
    left = [place for place in places if all(place[axis] in names for axis, names in own)]
    counts = Counter((at, place[axis]) for at, axis in enumerate(axes) for place in left)
    named = ((at, name) for at, names in enumerate(levels) for name in names)
    at, level = min(named, key=lambda one: (counts[one], *one))
    levels[at].remove(level)

"""Seeded samples of a stream, in bounded memory, that hardly move when the stream does."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rag_assay.warehouse.identity import digest

T = TypeVar("T")
HELD = 12  # things that are held of one key; more are counted


@dataclass
class Drawn(Generic[T]):
    """What a sample holds of one key: the first different things that had it, and how many there were."""

    key: str
    things: list[T] = field(default_factory=list)
    count: int = 0


class Sample(Generic[T]):
    """The keys of a stream with the smallest seeded digests ("bottom-k", Cohen and Kaplan, PODC 2007).

    Which keys are drawn depends on the seed and the keys alone, never on their order; a key more in the
    stream moves one drawn key at most. All things of a drawn key are seen, wherever they stand in it.

    Args:
        size: keys that are drawn at most.
        seed: another one draws others.

    >>> sample = Sample(2, seed=7)
    >>> for word in ["ferry", "buoy", "ferry", "tide"]:
    ...     sample.add(word, word)
    >>> [(one.key, one.count) for one in sample.drawn()]
    [('ferry', 1), ('buoy', 1)]
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, seed
        self._drawn: dict[str, Drawn[T]] = {}
        self._heap: list[tuple[int, str]] = []  # the greatest digest first, as a negative number

    def add(self, key: str, thing: T) -> None:
        """See one thing of the stream; one that is held already is seen once."""
        found = self._drawn.get(key) or self._room_for(key)
        if found is None:
            return
        if thing in found.things:
            return
        found.count += 1
        if len(found.things) < HELD:
            found.things.append(thing)

    def drawn(self) -> list[Drawn[T]]:
        """Return what was drawn, in the order of the digests: the first half is a sample of half the size."""
        return [self._drawn[key] for _, key in sorted(self._heap, reverse=True)]

    def _room_for(self, key: str) -> Drawn[T] | None:
        place = (-int(digest([self._seed, key]), 16), key)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, place)
        elif self._heap and place > self._heap[0]:
            _, gone = heapq.heapreplace(self._heap, place)
            del self._drawn[gone]  # a key never comes back: its digest stays as large as it is
        else:
            return None
        self._drawn[key] = Drawn(key)
        return self._drawn[key]

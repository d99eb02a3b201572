"""Which item an annotator is shown next: seeded, blind, and the same again after a reload.

Each annotator has an order of all items. An item belongs to the annotators whose names rank first for it by
a hash (rendezvous hashing: Thaler and Ravishankar, IEEE/ACM Transactions on Networking 6, 1998): to one, or
to two if it is scored twice. So who joins takes over a share of what is left, and nothing else moves. An
annotator goes through what is theirs, then through what others have left; what enough others have scored is
passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import ceil, floor
from typing import Literal

from rag_assay.evals.human.queue import Queue, QueuedItem, QueueProgress, Showing
from rag_assay.evals.human.rating_progress import Scored
from rag_assay.warehouse.human_scores import HumanScore
from rag_assay.warehouse.identity import digest_strings

APART = 10  # other items, at least, between the two showings of an item
RECENT = 500  # items, at most, among which one is drawn to be shown again
BLOCK = 10  # items within which the orders of annotators differ, where they go through the same ones
ANNOTATORS = 2  # that score an item which is scored twice


def showings(queue: Queue, annotator: str, among: Sequence[str] = ()) -> list[Showing]:
    """Return all that an annotator is shown, repeats included, if nobody else scores meanwhile.

    among: the names of those who share the work; unless given, the annotator scores every item
    """
    rank = _Order(queue, annotator)
    names = {*among, annotator}
    items = [one for one in rank.items if not among or annotator in rank.owners(one, names)]
    return list(_with_repeats(rank, items))


def next_showing(queue: Queue, annotator: str, scores: Iterable[HumanScore]) -> Showing | None:
    """Return what an annotator is shown next; None where nothing is left to do.

    First what was left half scored, then a repeat that is due, then the next item.

    scores: of the study by anybody, in the order of their files
    """
    scored = Scored(queue, scores)
    rank = _Order(queue, annotator)
    number = scored.shown(annotator) + 1
    begun = next(scored.begun(annotator), None)
    if begun is not None:
        return rank.showing(queue.by_id[begun[0]], number, begun[1])
    owed = next(_owed(rank, scored), None)
    apart = {*scored.repeated(annotator), *scored.skipped(annotator)}
    n_repeated = len(scored.repeated(annotator))
    repeat = _repeat(rank, scored.first_showings(annotator), n_repeated, apart, at_end=owed is None)
    if repeat is not None:
        return rank.showing(queue.by_id[repeat], number, 2)
    return None if owed is None else rank.showing(owed, number)


def progress(queue: Queue, annotator: str, scores: Iterable[HumanScore]) -> QueueProgress:
    """Return how far an annotator is."""
    scored = Scored(queue, scores)
    rank = _Order(queue, annotator)
    names = scored.annotators | {annotator}
    open_items = [one for one in rank.items if scored.wants(one.item_id, annotator, rank.wanted(one))]
    own = [one for one in open_items if annotator in rank.owners(one, names)] or open_items
    first = len(scored.first_showings(annotator)) + len(own)
    repeats = max(_final_repeats(queue, first) - len(scored.repeated(annotator)), 0)
    done = sum(scored.scorers(one.item_id) >= rank.wanted(one) for one in queue.items)
    return QueueProgress(scored.shown(annotator), len(own) + repeats, done, len(queue.items))


def showing_of(
    queue: Queue, annotator: str, item_id: str, position: int, showing: Literal[1, 2] = 1
) -> Showing:
    """Return an item as an annotator was shown it, as for going back to it.

    Raises:
        KeyError: it is not in the queue.
    """
    return _Order(queue, annotator).showing(queue.by_id[item_id], position, showing)


class _Order:
    """The order of an annotator, and whose an item is."""

    def __init__(self, queue: Queue, annotator: str) -> None:
        self.queue, self.annotator = queue, annotator
        self._twice = _scored_twice(queue.seed, queue.twice, tuple(queue.by_id))
        order = _order(queue.seed, annotator, queue.order, queue.twice, tuple(queue.by_id))
        self.items = [queue.by_id[one] for one in order]

    def wanted(self, queued: QueuedItem) -> int:
        """Return how many annotators are to score an item."""
        return ANNOTATORS if queued.item_id in self._twice else 1

    def owners(self, queued: QueuedItem, names: set[str]) -> list[str]:
        """Return which of some annotators an item belongs to."""
        wanted = self.wanted(queued)
        if len(names) <= wanted:
            return list(names)
        return sorted(names, key=lambda name: self._hash("owner", queued.item_id, name))[:wanted]

    def showing(self, queued: QueuedItem, position: int, showing: Literal[1, 2] = 1) -> Showing:
        """Return an item as it is shown; a repeat has the two answers of a pair the other way round."""
        swapped = int(self._hash("side", queued.item_id, self.annotator), 16) % 2 == showing % 2
        has_rival = queued.item.case.rival is not None
        return Showing(queued.item, queued.rubrics, position, showing, swapped and has_rival)

    def chance(self, what: str, of: str) -> str:
        """Return a hash of the annotator's and something else."""
        return self._hash(what, self.annotator, of)

    def _hash(self, what: str, *parts: str) -> str:
        return _hash(self.queue.seed, what, *parts)


def _hash(seed: int, *parts: str) -> str:
    return digest_strings([str(seed), *parts])


@lru_cache(maxsize=4)
def _scored_twice(seed: int, twice: float, ids: tuple[str, ...]) -> dict[str, int]:
    """Return which items two annotators score, with their places among them.

    They are the first by a hash, so that few change where the items do.
    """
    drawn = sorted(ids, key=lambda one: _hash(seed, "twice", one))[: _share(twice, len(ids))]
    return {one: place for place, one in enumerate(drawn)}


@lru_cache(maxsize=16)
def _order(seed: int, annotator: str, order: str, twice: float, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Return the items in the order of an annotator.

    Those that are scored twice come in about the same order to everybody, so that what two have scored is
    not long in coming; and so do all, where the more disputed come sooner.

    They are mixed with the others at 2 t / (1 + t) of the showings, where t is their share: if each of them
    is scored by two, and the others by one, t of the scored items are scored twice at any time, and both
    sorts end together.
    """
    shared = _scored_twice(seed, twice, ids)
    places = {one: place for place, one in enumerate(ids)}
    both = sorted(shared, key=(places if order == "disputed" else shared).__getitem__)
    single = [one for one in ids if one not in shared]
    rate = 2 * len(both) / (len(ids) + len(both) or 1)

    def timed(chosen: list[str], within: int, rate: float) -> list[tuple[float, str]]:
        keys = {one: (n // within, _hash(seed, "order", annotator, one)) for n, one in enumerate(chosen)}
        return [((n + 0.5) / rate, one) for n, one in enumerate(sorted(chosen, key=keys.__getitem__))]

    within = BLOCK if order == "disputed" else len(ids) or 1
    return tuple(one for _, one in sorted(timed(both, BLOCK, rate) + timed(single, within, 1 - rate)))


def _owed(rank: _Order, scored: Scored) -> Iterator[QueuedItem]:
    """Yield what an annotator has not scored and not enough others have: their own first."""
    names = scored.annotators | {rank.annotator}
    left = []
    for one in rank.items:
        if scored.wants(one.item_id, rank.annotator, rank.wanted(one)):
            if rank.annotator in rank.owners(one, names):
                yield one
            else:
                left.append(one)
    yield from left


# Hidden repeats --------------------------------------------------------------------------------------------


def _with_repeats(rank: _Order, items: Sequence[QueuedItem]) -> Iterator[Showing]:
    """Yield items as they are shown one after the other, with repeats among them and at the end."""
    position = 0
    repeated: set[str] = set()
    ids = [one.item_id for one in items]
    for number in range(len(items) + 1):
        at_end = number == len(items)
        while (again := _repeat(rank, ids[:number], len(repeated), repeated, at_end=at_end)) is not None:
            position += 1
            repeated.add(again)
            yield rank.showing(rank.queue.by_id[again], position, 2)
        if not at_end:
            position += 1
            yield rank.showing(items[number], position)


def _repeat(rank: _Order, shown: Sequence[str], repeats: int, never: set[str], *, at_end: bool) -> str | None:
    """Return the item that is shown again now, if one is due.

    shown: the ids of what the annotator has been through, in order
    repeats: how many were shown again so far
    never: what is not shown again
    """
    due = _final_repeats(rank.queue, len(shown)) if at_end else _due(rank, len(shown))
    if repeats >= due:
        return None
    last = max(len(shown) - APART, 0)
    left = (one for one in shown[max(last - RECENT, 0) : last] if one not in never)
    return min(left, key=lambda one: rank.chance("repeat", one), default=None)


def _due(rank: _Order, shown: int) -> int:
    """Return how many repeats are due after so many items: one in each stretch of 1 / `repeats`, anywhere."""
    share = rank.queue.repeats
    if share <= 0:
        return 0
    full = floor(shown * share)
    offset = int(rank.chance("slot", str(full)), 16) % 1000 / 1000
    return full + (full + offset < shown * share)


def _final_repeats(queue: Queue, shown: int) -> int:
    """Return how many repeats there are when an annotator has scored so many items."""
    return _share(queue.repeats, shown) if shown > APART else 0


def _share(share: float, of: int) -> int:
    """Return at least a share of so many, as a whole number.

    >>> _share(0.2, 10), _share(0.2, 11), _share(0.0, 11)
    (2, 3, 0)
    """
    return min(ceil(round(share * of, 9)), of)

"""Which item an annotator is shown next: seeded, blind, and the same after a reload.

Items belong to one annotator, or two, by rendezvous hashing (Thaler and Ravishankar, IEEE/ACM Transactions on
Networking 6, 1998), so that a new one takes over a share and nothing else moves. An annotator gets own items
first, then what others have left and is not rated enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import ceil, floor
from statistics import fmean
from typing import Literal

from rag_assay.evals.human.queue import Queue, QueuedItem, QueueProgress, Showing
from rag_assay.warehouse.human_scores import HumanScore
from rag_assay.warehouse.identity import digest_strings

_Asked = tuple[str, str | None]  # name of the rubric, name of the criterion
_Shown = tuple[str, str, int]  # annotator, item_id, showing


class Scored:
    """The valid scores of a queue's items: by the current wording, and not taken back."""

    def __init__(self, queue: Queue, scores: Iterable[HumanScore]) -> None:
        self._queue = queue
        self._standing: dict[_Shown, dict[tuple[_Asked, str | None, str | None], HumanScore]]
        self._standing = defaultdict(dict)
        for one in scores:
            if one.item_id in queue.by_id and queue.versions.get(one.rubric) == one.rubric_version:
                shown = self._standing[one.annotator, one.item_id, 1 if one.showing == 1 else 2]
                shown[(one.rubric, one.criterion), one.cell, one.question_id] = one
        self._asked = {
            rubrics: frozenset((name, one.name) for name in rubrics for one in queue.rubrics[name].criteria)
            for rubrics in {one.rubrics for one in queue.items}
        }
        self._scorers: dict[str, set[str]] = defaultdict(set)
        # Of each annotator: the items shown for the first time, the repeated ones, and those half rated.
        self.first: dict[str, list[str]] = defaultdict(list)
        self.again: dict[str, list[str]] = defaultdict(list)
        self.begun: dict[str, list[tuple[str, Literal[1, 2]]]] = defaultdict(list)
        self._through: set[tuple[str, str]] = set()
        self.annotators: set[str] = set()
        for key in self._standing:
            self._read(*key)

    def _read(self, annotator: str, item_id: str, showing: int) -> None:
        standing = {
            asked: one.status
            for (asked, _, _), one in self._standing[annotator, item_id, showing].items()
            if one.status != "withdrawn"
        }
        asked = self._asked[self._queue.by_id[item_id].rubrics]
        if not standing.keys() & asked:
            return
        self.annotators.add(annotator)
        if not asked <= standing.keys():
            self.begun[annotator].append((item_id, 1 if showing == 1 else 2))
            return
        (self.first if showing == 1 else self.again)[annotator].append(item_id)
        self._through.add((annotator, item_id))
        if "ok" in standing.values():
            self._scorers[item_id].add(annotator)

    def scorers(self, item_id: str) -> int:
        return len(self._scorers[item_id]) if item_id in self._scorers else 0

    def wants(self, item_id: str, annotator: str, wanted: int) -> bool:
        return (annotator, item_id) not in self._through and self.scorers(item_id) < wanted

    def skipped(self, annotator: str) -> set[str]:
        return {one for one in self.first[annotator] if annotator not in self._scorers.get(one, ())}

    def shown(self, annotator: str) -> int:
        return len(self.first[annotator]) + len(self.again[annotator])

    def values(self, rubric: str, criterion: str | None) -> list[float]:
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (annotator, item_id, _), standing in self._standing.items():
            for (asked, _, _), one in standing.items():
                if asked == (rubric, criterion) and one.status == "ok" and one.value is not None:
                    found[item_id][annotator].append(one.value)
        return [fmean(map(fmean, by_annotator.values())) for by_annotator in found.values()]


APART = 10  # other items, at least, between the two showings of an item
RECENT = 500  # items, at most, among which one is drawn to be shown again
BLOCK = 10  # items within which the orders of annotators differ, where they go through the same ones
ANNOTATORS = 2  # that score an item which is scored twice


def showings(queue: Queue, annotator: str, among: Sequence[str] = ()) -> list[Showing]:
    """Return all that an annotator is shown, repeats included, if no other one rates meanwhile."""
    rank = _Order(queue, annotator)
    names = {*among, annotator}
    items = [one for one in rank.items if not among or annotator in rank.owners(one, names)]
    return list(_with_repeats(rank, items))


def next_showing(queue: Queue, annotator: str, scores: Iterable[HumanScore]) -> Showing | None:
    """Return what was left half rated, then a repeat that is due, then the next item; None: all is done."""
    scored = Scored(queue, scores)
    rank = _Order(queue, annotator)
    number = scored.shown(annotator) + 1
    begun = next(iter(scored.begun[annotator]), None)
    if begun is not None:
        return rank.showing(queue.by_id[begun[0]], number, begun[1])
    owed = next(_owed(rank, scored), None)
    apart = {*scored.again[annotator], *scored.skipped(annotator)}
    n_repeated = len(scored.again[annotator])
    repeat = _repeat(rank, scored.first[annotator], n_repeated, apart, at_end=owed is None)
    if repeat is not None:
        return rank.showing(queue.by_id[repeat], number, 2)
    return None if owed is None else rank.showing(owed, number)


def progress(queue: Queue, annotator: str, scores: Iterable[HumanScore]) -> QueueProgress:
    scored = Scored(queue, scores)
    rank = _Order(queue, annotator)
    names = scored.annotators | {annotator}
    open_items = [one for one in rank.items if scored.wants(one.item_id, annotator, rank.wanted(one))]
    own = [one for one in open_items if annotator in rank.owners(one, names)] or open_items
    first = len(scored.first[annotator]) + len(own)
    repeats = max(_final_repeats(queue, first) - len(scored.again[annotator]), 0)
    done = sum(scored.scorers(one.item_id) >= rank.wanted(one) for one in queue.items)
    return QueueProgress(scored.shown(annotator), len(own) + repeats, done, len(queue.items))


def showing_of(
    queue: Queue, annotator: str, item_id: str, position: int, showing: Literal[1, 2] = 1
) -> Showing:
    return _Order(queue, annotator).showing(queue.by_id[item_id], position, showing)


class _Order:
    def __init__(self, queue: Queue, annotator: str) -> None:
        self.queue, self.annotator = queue, annotator
        self._twice = _scored_twice(queue.seed, queue.twice, tuple(queue.by_id))
        order = _order(queue.seed, annotator, queue.order, queue.twice, tuple(queue.by_id))
        self.items = [queue.by_id[one] for one in order]

    def wanted(self, queued: QueuedItem) -> int:
        return ANNOTATORS if queued.item_id in self._twice else 1

    def owners(self, queued: QueuedItem, names: set[str]) -> list[str]:
        wanted = self.wanted(queued)
        if len(names) <= wanted:
            return list(names)
        return sorted(names, key=lambda name: self._hash("owner", queued.item_id, name))[:wanted]

    def showing(self, queued: QueuedItem, position: int, showing: Literal[1, 2] = 1) -> Showing:
        """A repeat shows the two answers of a pair the other way round."""
        swapped = int(self._hash("side", queued.item_id, self.annotator), 16) % 2 == showing % 2
        has_rival = queued.item.case.rival is not None
        return Showing(queued.item, queued.rubrics, position, showing, swapped and has_rival)

    def chance(self, what: str, of: str) -> str:
        return self._hash(what, self.annotator, of)

    def _hash(self, what: str, *parts: str) -> str:
        return _hash(self.queue.seed, what, *parts)


def _hash(seed: int, *parts: str) -> str:
    return digest_strings([str(seed), *parts])


@lru_cache(maxsize=4)
def _scored_twice(seed: int, twice: float, ids: tuple[str, ...]) -> dict[str, int]:
    drawn = sorted(ids, key=lambda one: _hash(seed, "twice", one))[: _share(twice, len(ids))]
    return {one: place for place, one in enumerate(drawn)}


@lru_cache(maxsize=16)
def _order(seed: int, annotator: str, order: str, twice: float, ids: tuple[str, ...]) -> tuple[str, ...]:
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
    due = _final_repeats(rank.queue, len(shown)) if at_end else _due(rank, len(shown))
    if repeats >= due:
        return None
    last = max(len(shown) - APART, 0)
    left = (one for one in shown[max(last - RECENT, 0) : last] if one not in never)
    return min(left, key=lambda one: rank.chance("repeat", one), default=None)


def _due(rank: _Order, shown: int) -> int:
    share = rank.queue.repeats
    if share <= 0:
        return 0
    full = floor(shown * share)
    offset = int(rank.chance("slot", str(full)), 16) % 1000 / 1000
    return full + (full + offset < shown * share)


def _final_repeats(queue: Queue, shown: int) -> int:
    return _share(queue.repeats, shown) if shown > APART else 0


def _share(share: float, of: int) -> int:
    return min(ceil(round(share * of, 9)), of)

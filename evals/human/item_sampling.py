"""Draws the items of a queue: seeded, with a known probability each, so that few change where the items do.

Sequential Poisson sampling (Ohlsson, Journal of Official Statistics 14, 1998): an item has a permanent random
number u, uniform on 0 to 1, and a weight w; the items with the smallest u / w are drawn, with a probability
of about min(1, t w), where t is such that these add up to the size of the sample. u is of the question, in
the order in which `Study.sampled` draws questions.

The first item of each stratum is drawn, if there is room for all of them. Of N items of equal weight each is
the first without being drawn for its u with the probability (1 - t w)^N / N, which is added; in a stratum of
unequal ones N is their sum of weights over w.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rag_assay.evals.human.queue import Queue, QueuedItem, queue_version, read_queue
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.statistics.clusters import Floats
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.human_scores import HumanScores, ScoreSnapshot
from rag_assay.warehouse.identity import digest, digest_strings
from rag_assay.warehouse.paths import Home

MOST_LIKELY = 5.0  # how much likelier the most disputed item is drawn than an undisputed one
_DIGITS = 13  # hex digits that a float holds
_STEPS = 60  # halvings until t is as near as a float can be


@dataclass(frozen=True)
class QueueCandidate:
    """An item that can be drawn; questions: ids; several only if they are worded alike; disputed: 0 to 1, if
    known.

    strata: what must not be without an item: its cells, each with what it is compared with
    """

    item: Item
    rubrics: tuple[str, ...]
    questions: frozenset[str]
    strata: frozenset[tuple[str, str]]
    disputed: float | None = None


def draw_items(
    candidates: Sequence[QueueCandidate], seed: int, size: int | None, *, by_dispute: bool = False
) -> list[QueuedItem]:
    weights = _weights(candidates) if by_dispute else np.ones(len(candidates))
    order = _order(candidates, seed, weights)
    if size is None or size >= len(order):
        return [_queued(candidates[n], 1.0) for n in order]
    firsts = _firsts(candidates, order)
    chosen = set([*firsts, *(n for n in order if n not in firsts)][:size])
    shares = _probabilities(candidates, weights, size, of_firsts=len(firsts) > size)
    return [_queued(candidates[n], float(shares[n])) for n in order if n in chosen]


def drawing_weight(disputed: float) -> float:
    return 1.0 + (MOST_LIKELY - 1.0) * disputed


def without_items(candidates: Sequence[QueueCandidate], queued: Sequence[QueuedItem]) -> set[tuple[str, str]]:
    ids = {one.item_id for one in queued}
    there = {stratum for one in candidates if one.item.item_id in ids for stratum in one.strata}
    return {stratum for one in candidates for stratum in one.strata} - there


def _queued(candidate: QueueCandidate, probability: float) -> QueuedItem:
    return QueuedItem(candidate.item, candidate.rubrics, probability, candidate.disputed)


def _weights(candidates: Sequence[QueueCandidate | QueuedItem]) -> Floats:
    known = [drawing_weight(one.disputed) for one in candidates if one.disputed is not None]
    mean = sum(known) / len(known) if known else 1.0
    return np.array([mean if one.disputed is None else drawing_weight(one.disputed) for one in candidates])


def _order(candidates: Sequence[QueueCandidate], seed: int, weights: Floats) -> list[int]:
    def key(n: int) -> tuple[float, str]:
        one = candidates[n]
        number = min(digest([seed, question]) for question in one.questions)[:_DIGITS]
        uniform = (int(number, 16) + 0.5) / 16**_DIGITS
        return uniform / weights[n], digest_strings([str(seed), "draw", one.item.item_id])

    keys = [key(n) for n in range(len(candidates))]
    return sorted(range(len(candidates)), key=keys.__getitem__)


def _firsts(candidates: Sequence[QueueCandidate], order: Sequence[int]) -> dict[int, None]:
    seen: set[tuple[str, str]] = set()
    found: dict[int, None] = {}
    for n in order:
        if not candidates[n].strata <= seen:
            seen |= candidates[n].strata
            found[n] = None
    return found


def _probabilities(
    candidates: Sequence[QueueCandidate], weights: Floats, size: int, *, of_firsts: bool
) -> Floats:
    sums: dict[tuple[str, str], float] = {}
    for one, weight in zip(candidates, weights, strict=True):
        for stratum in one.strata:
            sums[stratum] = sums.get(stratum, 0.0) + weight
    least = np.array([min(sums[stratum] for stratum in one.strata) for one in candidates])
    fellows = np.maximum(least / weights, 1.0)

    def at(t: float) -> Floats:
        if of_firsts:
            return np.minimum(t / fellows, 1.0)
        by_place = np.minimum(t * weights, 1.0)
        return by_place + (1.0 - by_place) ** fellows / fellows

    low, high = 0.0, float(np.max(fellows)) + 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle).sum() < size else (low, middle)
    return at(high)


def probabilities(queue: Queue, scored: Collection[str]) -> dict[str, float]:
    """Return item id -> the probability of being among what was rated (ids ``scored``), or drawn.

    At random, the ratings so far are an equal sample of the queue. If disputed items come first, the m rated
    ones are about the first m in the order of drawing: min(1, t w), with t such that the sum of min(1, t w) /
    probability of drawing over the queue is m.
    """
    found = {one.item_id: one.probability for one in queue.items}
    number = len(found.keys() & set(scored))
    if queue.order == "random" or not 0 < number < len(found):
        return found
    drawing = np.array(list(found.values()))
    weights = _weights(queue.items)
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        reached = (np.minimum(np.minimum(middle * weights, 1.0), drawing) / drawing).sum()
        low, high = (middle, high) if reached < number else (low, middle)
    return dict(zip(found, np.minimum(high * weights, drawing).tolist(), strict=True))


class RatingSnapshot(NamedTuple):
    """The ratings, and the version of the queue."""

    scores: ScoreSnapshot
    queue: str | None


def seen_now(home: Home, study: str) -> RatingSnapshot:
    version = None
    with suppress(CorruptFileError):  # the reader of the queue reports it
        version = queue_version(home, study)
    return RatingSnapshot(HumanScores(home).snapshot(study), version)


def drawing_probabilities(
    home: Home, study: str, seen: RatingSnapshot, scored: Collection[str] = ()
) -> Mapping[str, float]:
    queue = None
    with suppress(CorruptFileError):
        queue = read_queue(home, study, seen.queue) if seen.queue else None
    return probabilities(queue, scored) if queue else {}

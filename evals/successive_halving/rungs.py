"""The rungs of a race: nested samples of the questions, each cluster whole, every type in its share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rag_assay.warehouse.identity import digest

LEAST_CLUSTERS = 6
"""A rung with fewer can tell nothing apart: of k clusters the signs give no p below 2^(1 - k)."""


class StratifiedQuestion(NamedTuple):
    """A question as rungs are made of it: its cluster, and what it is one of (its set and type)."""

    question: str
    cluster: object
    stratum: object


def question_order(questions: Sequence[StratifiedQuestion], seed: int) -> list[list[str]]:
    """Return the clusters of questions in the order in which a race asks them.

    The clusters of each stratum are shuffled by the digest of the seed and their questions, and the i-th of m
    stands at (i + 1/2) / m: so each beginning of the order holds every stratum in about its share, and the
    samples are nested. A cluster is of the stratum of most of its questions.

    >>> questions = [StratifiedQuestion(f"{kind}{n}", f"{kind}{n}", kind) for kind in "ab" for n in range(2)]
    >>> order = [ids[0][0] for ids in question_order(questions, 7)]
    >>> sorted(order[:2]), sorted(order[2:])
    (['a', 'b'], ['a', 'b'])
    """
    clusters: dict[object, list[StratifiedQuestion]] = {}
    for one in questions:
        clusters.setdefault(one.cluster, []).append(one)
    strata: dict[str, list[list[str]]] = {}
    for held in clusters.values():
        kinds = [str(one.stratum) for one in held]
        most = max(dict.fromkeys(kinds), key=kinds.count)
        strata.setdefault(most, []).append([one.question for one in held])
    placed: list[tuple[float, str, list[str]]] = []
    for held_by in strata.values():
        shuffled = sorted(held_by, key=lambda ids: digest([seed, sorted(ids)]))
        placed += [
            ((n + 0.5) / len(shuffled), digest([seed, sorted(ids)]), ids) for n, ids in enumerate(shuffled)
        ]
    return [ids for _, _, ids in sorted(placed, key=lambda one: one[:2])]


def rungs(order: Sequence[Sequence[str]], first: int, growth: float) -> list[list[str]]:
    """Cut the order into blocks of questions: what each rung asks beside those before it.

    The k-th rung has first * growth^k questions in all, and never half of a cluster. There is a further one
    only while at least half as many questions remain as were asked, and as many as the first rung has: a look
    that can spare little costs those before it some of their level. So with few questions there is one.

    >>> [len(block) for block in rungs([[str(n)] for n in range(100)], 12, 2.0)]
    [12, 12, 24, 52]
    >>> [len(block) for block in rungs([[str(n)] for n in range(20)], 12, 2.0)]
    [20]
    """
    total = sum(map(len, order))
    end = first
    blocks: list[list[str]] = [[]]
    asked = clusters = 0
    for ids in order:
        if asked >= end and clusters >= LEAST_CLUSTERS and total - asked >= max(first, asked / 2):
            end = math.ceil(max(end, asked) * growth)
            blocks.append([])
        blocks[-1] += ids
        asked, clusters = asked + len(ids), clusters + 1
    return [block for block in blocks if block]


def in_words(blocks: Sequence[Sequence[str]]) -> str:
    """Say how many questions each rung has in all.

    >>> in_words([["a"], ["b"], ["c", "d"]])
    '1, 2 and 4 questions'
    """
    ends = [sum(map(len, blocks[: n + 1])) for n in range(len(blocks))]
    listed = ", ".join(map(str, ends[:-1]))
    return f"{listed} and {ends[-1]} questions" if listed else f"{ends[-1]} questions"


def strata_of(questions: Sequence[Mapping[str, object]]) -> list[object]:
    """Return what each question (schemas.QUESTIONS) is one of: its set and its type."""
    return [f"{one['question_set']}/{one['type']}" for one in questions]

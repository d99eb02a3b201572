"""Nearest chunks by the cosine of their vectors."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from evals.retrieving.contract import Depth, Query, Ranking, Retriever, Vector, nothing
from evals.retrieving.index import OpenIndex


class Dense(Retriever):
    """Cosine similarity between the question's vector and the chunks'.

    search: exact (every chunk) | ann (the index's approximate search: faster on many chunks, and may miss
        some) | auto (ann where the index has it)

    A filter that is not known as a predicate is searched exactly, so that it never costs results.
    """

    kind: ClassVar[str] = "dense"
    code_version: ClassVar[str] = "2"

    k: Depth = 10
    search: Literal["auto", "exact", "ann"] = "auto"

    @property
    def needs_vector(self) -> bool:
        """Always."""
        return True

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank by cosine; both sides are unit vectors, so the dot product is the cosine.

        Raises:
            ValueError: the question has no vector, or `ann` is asked of an index without it.
        """
        if not len(index) or not query.text.strip():
            return nothing()
        if query.vector is None:
            raise ValueError("dense retrieval needs the question's vector")
        if self.search == "ann" and not index.has_ann:
            raise ValueError(
                "`search: ann` needs an index with approximate search; build one, or search `exact`"
            )
        if self.search == "exact" or not index.has_ann or (query.allowed is not None and query.where is None):
            return nearest(query.vector, query, index, self.k)
        rows, scores = index.search_ann(query.vector, self.k, query.where, query.allowed)
        return Ranking.best(rows, scores, self.k)


def nearest(vector: Vector, query: Query, index: OpenIndex, k: int) -> Ranking:
    """Rank every chunk that may be found by its cosine with ``vector``; equal vectors tie exactly.

    One question takes 0.4 ms for 5,000 chunks of 384 dimensions. A matrix product for 300 questions at once
    takes a fifth of that each, but its sums differ with a row's place, and no question has a latency then.
    """
    scores = index.cosines(vector)
    rows = np.arange(len(scores)) if query.allowed is None else np.flatnonzero(query.allowed)
    return Ranking.best(rows, scores[rows], k)

"""Reranks by spreading scores over the neighbour graph of the candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from rag_assay.evals.retrieval.chain import Around
from rag_assay.evals.retrieval.contract import IndexStep
from rag_assay.evals.retrieval.query import Kind, Query
from rag_assay.evals.retrieval.ranking import Ranking, Rows, Scores
from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex

Square: TypeAlias = "npt.NDArray[np.float64]"
DECIMALS = 6  # of a similarity, so that equal vectors are equally near whatever the order of a sum
ROUNDS, ENOUGH = 200, 1e-13


class _Spreading(Strict):
    """What the step and the retriever have in common.

    Two candidates are neighbours when their cosine is at least `similarity`, and in the upper part of all
    pairs of candidates that `percentile` (in percent) leaves. Scores become those of a random walk that
    starts again at the candidates by their own scores (personalised PageRank: Haveliwala, WWW 2002):

        r = (1 - spread) * p + spread * W r

    p: the candidates' scores, moved to begin at 0 where one is negative, with sum 1 (all equal: uniform)
    W[i, j]: cosine(i, j) / sum of cosine(l, j) over the neighbours l of j; a candidate without any keeps what
        it has

    similarity: least cosine of neighbours
    percentile: share of the pairs of candidates, in percent, that are no neighbours whatever their cosine
    spread: how much of a score comes from the neighbours
    add: so many of the nearest neighbours that are no candidates take part, with p = 0: chunks whose cosine
        with a candidate reaches the same bound, nearest first
    n: how many candidates are looked at, the first ones; those after them are left out
    """

    similarity: Annotated[float, Field(ge=-1, le=1)] = 0.9
    percentile: Annotated[float, Field(ge=0, le=100)] = 90.0
    spread: Annotated[float, Field(ge=0, lt=1)] = 0.1
    add: Annotated[int, Field(ge=0, le=1_000)] = 0
    n: Annotated[int, Field(ge=1, le=1_000)] = 100


def cosines(index: OpenIndex, left: Rows, right: Rows) -> Square:
    found: Square = (index.vectors[left] @ index.vectors[right].T).astype(np.float64)
    return found.round(DECIMALS)


def _shares(scores: Scores) -> Scores:
    moved: Scores = scores - min(0.0, float(scores.min()))
    if not moved.any():
        moved = np.ones(len(scores), np.float64)
    shares: Scores = moved / float(moved.sum())
    return shares


def random_walk(start: Scores, near: Square, spread: float) -> Scores:
    """Return the shares of a random walk that restarts with chance 1 - spread, and else goes to a neighbour.

    near: weights of the edges, shape (n, n), symmetric, with an empty diagonal

    >>> random_walk(np.array([0.8, 0.2, 0.0]), np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0.0]]), 0.0).tolist()
    [0.8, 0.2, 0.0]
    >>> [round(x, 4) for x in random_walk(np.array([1.0, 0.0]), np.array([[0, 1], [1, 0.0]]), 0.5).tolist()]
    [0.6667, 0.3333]
    """
    out = near.sum(axis=0)
    alone = out == 0
    steps = np.where(alone, 0.0, near / np.where(alone, 1.0, out)) + np.diag(alone.astype(np.float64))
    found = start
    for _ in range(ROUNDS):
        following = (1 - spread) * start + spread * (steps @ found)
        if np.abs(following - found).max() < ENOUGH:
            return following
        found = following
    return found


class Graph(_Spreading, IndexStep):
    """Spreads scores over the neighbour graph of the candidates, and may add neighbours to them."""

    kind: ClassVar[str] = "graph"
    code_version: ClassVar[str] = "1"
    role: ClassVar[Kind] = "rerank"
    narrows: ClassVar[bool] = True

    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        if not len(ranking):
            return ranking
        rows, scores = ranking.rows[: self.n], ranking.scores[: self.n]
        alike = cosines(index, rows, rows)
        bound = self._bound(alike)
        more = self._more(rows, bound, query, index) if self.add else rows[:0]
        start = np.concatenate([_shares(scores), np.zeros(len(more))])
        nodes = np.concatenate([rows, more])
        if len(more):
            alike = cosines(index, nodes, nodes)
        near = np.where(alike >= bound, np.maximum(alike, 0.0), 0.0)
        np.fill_diagonal(near, 0.0)
        return Ranking.best(nodes, np.round(random_walk(start, near, self.spread), 12), len(nodes))

    def _bound(self, alike: Square) -> float:
        pairs = alike[np.triu_indices(len(alike), 1)]
        if not len(pairs):
            return self.similarity
        return max(self.similarity, float(np.percentile(pairs, self.percentile, method="higher")))

    def _more(self, rows: Rows, bound: float, query: Query, index: OpenIndex) -> Rows:
        nearest = np.round((index.vectors @ index.vectors[rows].T).max(axis=1).astype(np.float64), DECIMALS)
        nearest[rows] = -2.0
        near = np.flatnonzero(nearest >= bound)
        near = near[query.permitted(near)]
        return Ranking.best(near, nearest[near], self.add).rows


class GraphRanked(_Spreading, Around):
    """Another retriever's candidates, with their scores spread over their neighbour graph.

    of: the retriever
    """

    kind: ClassVar[str] = "graph"

    @model_validator(mode="after")
    def _spreads_over_chunks(self) -> Self:
        if self.of.widens:
            raise ValueError(
                "`graph` ranks chunks, and would undo `neighbours` in its `of`; put them after it"
            )
        return self

    @property
    def step(self) -> Graph:
        return Graph(**{name: getattr(self, name) for name in _Spreading.model_fields})

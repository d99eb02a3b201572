"""Hybrid search by LanceDB: vector and full-text search joined by its rerankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, Retriever, Searcher
from rag_assay.evals.retrieval.dense import Dense, DenseSearcher
from rag_assay.evals.retrieval.fulltext import matching
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, Scores, nothing

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.rerankers import Reranker

WEIGHTS = {"linear": 0.7, "mrr": 0.5}  # of the vector search, as LanceDB has them


class LanceHybrid(Retriever):
    """Vector and full-text search, joined by LanceDB's rerankers that need no model of their own.

    Those that do read question and passage together: `cross_encoder` around a `lancedb` is one.

    reranker: rrf (`RRFReranker`: sum of 1 / (rank + constant)) | linear (`LinearCombinationReranker`:
        weight * vector score + (1 - weight) * full-text score, each brought to 0..1 among its candidates;
        what one side lacks counts as `1 - fill` there) | mrr (`MRRReranker`: weight / rank in the vector
        search + (1 - weight) / rank in the full-text search)
    constant: rrf only; 60 in the paper of Cormack et al. (2009)
    weight: linear and mrr only; share of the vector search; LanceDB's own default for each, 0.7 and 0.5,
        unless said otherwise
    fill: linear only; LanceDB's penalty, 1 for a score of 0
    depth: candidates of each side, or `k` where that is more

    The ranking is that of `table.search(query_type="hybrid")`, but for ties: LanceDB leaves open how it
    orders equal scores, and which of them it cuts off, while its rerankers count ranks. So both sides are
    searched by themselves and put in order, ties by chunk id, before LanceDB's reranker joins them.
    """

    kind: ClassVar[str] = "lancedb"
    code_version: ClassVar[str] = "2"

    k: Depth = 10
    reranker: Literal["rrf", "linear", "mrr"] = "rrf"
    constant: Annotated[int, Field(ge=1, le=10_000)] = 60
    weight: Annotated[float, Field(ge=0, le=1)] | None = None
    fill: Annotated[float, Field(ge=0, le=1)] = 1.0
    depth: Depth = 100

    @property
    def needs_vector(self) -> bool:
        """Always."""
        return True

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        """Search the index both ways."""
        return _LanceSearcher(self, index)

    def joiner(self) -> Reranker:
        """Return LanceDB's reranker."""
        from lancedb.rerankers import LinearCombinationReranker, MRRReranker, RRFReranker

        if self.reranker == "rrf":
            return RRFReranker(K=self.constant, return_score="all")
        weight = WEIGHTS[self.reranker] if self.weight is None else self.weight
        if self.reranker == "mrr":
            return MRRReranker(weight, 1 - weight, return_score="all")
        return LinearCombinationReranker(weight=weight, fill=self.fill, return_score="all")


class _LanceSearcher(Searcher):
    def __init__(self, recipe: LanceHybrid, index: OpenIndex) -> None:
        self._recipe, self._index = recipe, index
        self._depth = max(recipe.depth, recipe.k)
        self._dense = DenseSearcher(Dense(k=self._depth), index)

    def search(self, query: Query) -> Ranking:
        """Search both ways and join.

        Raises:
            ValueError: the question has no vector.
        """
        if not len(self._index) or not query.text.strip():
            return nothing()
        if query.vector is None:
            raise ValueError("hybrid search needs the question's vector")
        vectors = self._dense.search(query)
        words = matching(query, self._index, self._depth)
        query.trace.record("lancedb/vector", "arm", vectors)
        query.trace.record("lancedb/fulltext", "arm", words)
        joined = self._recipe.joiner().rerank_hybrid(
            query.text,
            _table(vectors, "_distance", 1 - vectors.scores),
            _table(words, "_score", words.scores),
        )
        rows = joined["_rowid"].to_numpy().astype(np.int64)
        scores = joined["_relevance_score"].to_numpy().astype(np.float64)
        found = Ranking.best(rows, scores, self._recipe.k)
        query.trace.record("lancedb", "fuse", found)
        return found


def _table(ranking: Ranking, column: str, values: Scores) -> pa.Table:
    """Return a ranking as a hybrid search hands it to its reranker: with values from 0 to 1."""
    import pyarrow as pa

    if len(values):
        spread = values.max() - values.min()
        values = (values - values.min()) / spread if spread else np.zeros(len(values), np.float64)
    return pa.table({"_rowid": ranking.rows.astype(np.uint64), column: values.astype(np.float32)})

"""Full-text search by LanceDB, and its hybrid search joined by rerankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assay.evals.retrieval.contract import Depth, IndexRetriever
from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.ranking import Ranking, Rows, Scores

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.rerankers import Reranker

    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query import Query


AHEAD = 50  # asked for beyond k, so that equal scores at the cut can be ordered by chunk id
WORDS = 512  # of a question that are searched: the search takes seconds for tens of thousands


class FullText(IndexRetriever):
    """BM25 as LanceDB computes it (its own tokenizer: lower-cased, stemmed, without English stop words).

    The first 512 words of a question are searched.
    """

    kind: ClassVar[str] = "fulltext"
    code_version: ClassVar[str] = "4"

    k: Depth = 10

    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        return matching(query, index, self.k)


def matching(query: Query, index: OpenIndex, k: int) -> Ranking:
    """Return the k best matches that may be found; more and more are requested until they hold k."""
    limit = k + AHEAD
    while True:
        rows, scores = _search(query.text, limit, index, query.where)
        permitted = query.permitted(rows)
        inside = scores[permitted]
        complete = len(rows) < limit or limit >= len(index)
        if complete or (len(inside) >= k and scores.min() < np.partition(inside, -k)[-k]):
            return Ranking.best(rows[permitted], inside, k)
        limit *= 4


def _search(text: str, limit: int, index: OpenIndex, where: str | None) -> tuple[Rows, Scores]:
    from lancedb.query import MatchQuery

    match = MatchQuery(" ".join(text.split(maxsplit=WORDS)[:WORDS]), "text")
    search = index.table.search(match, query_type="fts").select(["chunk_id", "_score"]).limit(limit)
    found = (search.where(where, prefilter=True) if where else search).to_arrow()
    rows = index.places(found["chunk_id"].to_pylist())
    return rows, np.array(found["_score"].to_pylist(), np.float64)


WEIGHTS = {"linear": 0.7, "mrr": 0.5}  # of the vector search, as LanceDB has them


class LanceHybrid(IndexRetriever):
    """Vector and full-text search, joined by LanceDB's rerankers that need no model of their own.

    Those that do read question and passage together: `cross_encoder` around a `lancedb` is one.

    reranker: rrf (`RRFReranker`: sum of 1 / (rank + constant)) | linear (`LinearCombinationReranker`:
        weight * vector score + (1 - weight) * full-text score, each brought to 0..1 among its candidates;
        what one side lacks counts as `1 - fill` there) | mrr (`MRRReranker`: weight / rank in the vector
        search + (1 - weight) / rank in the full-text search)
    constant: rrf only; 60 in the paper of Cormack et al. (2009)
    weight: linear and mrr only; share of the vector search; default: LanceDB's own, 0.7 and 0.5
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
        return True

    def joiner(self) -> Reranker:
        from lancedb.rerankers import LinearCombinationReranker, MRRReranker, RRFReranker

        if self.reranker == "rrf":
            return RRFReranker(K=self.constant, return_score="all")
        weight = WEIGHTS[self.reranker] if self.weight is None else self.weight
        if self.reranker == "mrr":
            return MRRReranker(weight, 1 - weight, return_score="all")
        return LinearCombinationReranker(weight=weight, fill=self.fill, return_score="all")

    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        if query.vector is None:
            raise ValueError("hybrid search needs the question's vector")
        depth = max(self.depth, self.k)
        vectors = Dense(k=depth).rank(query, index, context)
        words = matching(query, index, depth)
        query.trace.record("lancedb/vector", "arm", vectors)
        query.trace.record("lancedb/fulltext", "arm", words)
        joined = self.joiner().rerank_hybrid(
            query.text,
            _table(vectors, "_distance", 1 - vectors.scores),
            _table(words, "_score", words.scores),
        )
        rows = joined["_rowid"].to_numpy().astype(np.int64)
        scores = joined["_relevance_score"].to_numpy().astype(np.float64)
        found = Ranking.best(rows, scores, self.k)
        query.trace.record("lancedb", "fuse", found)
        return found


def _table(ranking: Ranking, column: str, values: Scores) -> pa.Table:
    import pyarrow as pa

    if len(values):
        spread = values.max() - values.min()
        values = (values - values.min()) / spread if spread else np.zeros(len(values), np.float64)
    return pa.table({"_rowid": ranking.rows.astype(np.uint64), column: values.astype(np.float32)})

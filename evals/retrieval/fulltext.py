"""Full-text search by LanceDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, Retriever, Searcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, Rows, Scores, nothing

AHEAD = 50  # asked for beyond k, so that equal scores at the cut can be ordered by chunk id
WORDS = 512  # of a question that are searched: the search takes seconds for tens of thousands


class FullText(Retriever):
    """BM25 as LanceDB computes it (its own tokenizer: lower-cased, stemmed, without English stop words).

    The first 512 words of a question are searched.
    """

    kind: ClassVar[str] = "fulltext"
    code_version: ClassVar[str] = "4"

    k: Depth = 10

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        """Search the index by LanceDB's full-text search."""
        return _FullTextSearcher(index, self.k)


@dataclass(frozen=True)
class _FullTextSearcher(Searcher):
    index: OpenIndex
    k: int

    def search(self, query: Query) -> Ranking:
        """Rank the chunks that match at least one word of the question."""
        if not len(self.index) or not query.text.strip():
            return nothing()
        return matching(query, self.index, self.k)


def matching(query: Query, index: OpenIndex, k: int) -> Ranking:
    """Return the k best matches that may be found, whatever the search itself leaves out.

    It is asked for more and more, until k of what it returned may be found and the last of them is better
    than what may have been left out, or until it has no more.
    """
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

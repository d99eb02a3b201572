"""LanceDB's full-text search."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from evals.retrieving.contract import Depth, Query, Ranking, Retriever, nothing
from evals.retrieving.index import OpenIndex

TIES = 50  # asked for beyond k, so that equal scores at the cut can be ordered by chunk id


class FullText(Retriever):
    """BM25 as LanceDB computes it (its own tokenizer: words, lower-cased, stemmed, without English stop words)."""

    code_version: ClassVar[str] = "1"

    k: Depth = 10

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank the chunks that match at least one word of the question."""
        from lancedb.query import MatchQuery

        if not len(index) or not query.text.strip():
            return nothing()
        search = index.table.search(MatchQuery(query.text, "text"), query_type="fts")
        found = search.select(["chunk_id", "_score"]).limit(self.k + TIES).to_arrow()
        rows = np.array([index.positions[c] for c in found["chunk_id"].to_pylist()], np.int64)
        return Ranking.best(rows, np.array(found["_score"].to_pylist(), np.float64), self.k)

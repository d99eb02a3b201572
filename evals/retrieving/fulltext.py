"""LanceDB's full-text search."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from evals.retrieving.contract import Depth, Query, Ranking, Retriever, nothing
from evals.retrieving.index import OpenIndex

AHEAD = 50  # asked for beyond k, so that equal scores at the cut can be ordered by chunk id


class FullText(Retriever):
    """BM25 as LanceDB computes it (its own tokenizer: lower-cased, stemmed, without English stop words)."""

    code_version: ClassVar[str] = "2"

    k: Depth = 10

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank the chunks that match at least one word of the question."""
        if not len(index) or not query.text.strip():
            return nothing()
        limit = self.k + AHEAD
        rows, scores = _search(query.text, limit, index)
        while len(rows) == limit < len(index) and scores.min() == np.partition(scores, -self.k)[-self.k]:
            limit *= 4  # as many ties as rows: the first by chunk id may be among those that were left out
            rows, scores = _search(query.text, limit, index)
        return Ranking.best(rows, scores, self.k)


def _search(text: str, limit: int, index: OpenIndex) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    from lancedb.query import MatchQuery

    search = index.table.search(MatchQuery(text, "text"), query_type="fts")
    found = search.select(["chunk_id", "_score"]).limit(limit).to_arrow()
    rows = np.array([index.positions[chunk_id] for chunk_id in found["chunk_id"].to_pylist()], np.int64)
    return rows, np.array(found["_score"].to_pylist(), np.float64)

"""A retriever."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, Retriever, Searcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing


class Longest(Retriever):
    """The longest chunks, whatever is asked."""

    kind: ClassVar[str] = "acme_longest"

    k: Depth = 10

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        """Return what ranks by the length of the texts."""
        lengths = index.chunks["text"].str.len_chars().to_numpy().astype(np.float64)
        return _LongestSearcher(lengths, self.k)


class _LongestSearcher(Searcher):
    def __init__(self, lengths: np.ndarray, k: int) -> None:
        self._lengths = lengths
        self._k = k

    def search(self, query: Query) -> Ranking:
        """Return the longest chunks that the question allows."""
        if not query.text.strip():
            return nothing()
        rows = np.flatnonzero(query.permitted(np.arange(len(self._lengths))))
        return Ranking.best(rows, self._lengths[rows], self._k)

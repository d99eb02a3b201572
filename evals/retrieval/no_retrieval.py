"""A retriever that returns no passage, as a baseline for generators."""

from __future__ import annotations

from typing import ClassVar

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, Retriever, Searcher
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing


class Nothing(Retriever):
    """Finds no passage for any question: what a model answers from is what it knows by itself."""

    kind: ClassVar[str] = "nothing"
    code_version: ClassVar[str] = "1"

    k: Depth = 10

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        """Return what finds nothing."""
        return _NothingSearcher()


class _NothingSearcher(Searcher):
    def search(self, query: Query) -> Ranking:
        """Return the empty ranking."""
        return nothing()

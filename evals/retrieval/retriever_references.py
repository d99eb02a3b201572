"""Retrievers as parts: of other retrievers, or of a study whose other retrievers hold the same part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rag_assay.evals.retrieval.context import RetrievalContext, SearchResult
from rag_assay.evals.retrieval.contract import Retriever, Searcher
from rag_assay.evals.retrieval.query import Query, Trace, TraceStep

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.ranking import Ranking


class SharedSearcher(Searcher):
    """A retriever that ranks a question once in a run, however many share it; the clock counts its time."""

    def __init__(self, retriever: Retriever, index: OpenIndex, context: RetrievalContext) -> None:
        self._kind = retriever.kind
        self._key = (retriever.kind, retriever.model_dump_json())
        self._context = context
        self._searcher = retriever.open(index, context)

    def search(self, query: Query) -> Ranking:
        found = self.found(query)
        query.trace.include(found.steps, found.notes, found.understood)
        query.trace.allowed = found.allowed
        return found.ranking

    def found(self, query: Query) -> SearchResult:
        """Rank, and return what the part found; a part that records no steps of its own is one step."""
        found = self._remembered(query) if query.remembered else self._searched(query)
        if found.steps:
            return found
        return found._replace(steps=(TraceStep(self._kind, "arm", found.ranking.rows, found.ranking.spans),))

    def _remembered(self, query: Query) -> SearchResult:
        memory = self._context.memory
        if memory is None:
            return self._searched(query)
        key = (self._key, query.key())
        known = memory.held.get(key)
        if known is None:
            known = self._searched(query)
            memory.keep(key, known)
        else:
            self._context.clock.add(known.spent)
        return known

    def _searched(self, query: Query) -> SearchResult:
        trace, begin = Trace(), self._context.clock.now()
        ranking = self._searcher.search(replace(query, trace=trace))
        spent = self._context.clock.since(begin)
        understood = tuple(trace.understood.values())
        return SearchResult(ranking, spent, tuple(trace.steps), tuple(trace.notes), trace.allowed, understood)

    def close(self) -> None:
        self._searcher.close()

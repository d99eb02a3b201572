"""The retrievers, and the steps of a chain, by the names that study files use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from assets.recipes.build_half import OneKind, one_of
from evals.measuring.contract import RetrievalMetric
from evals.retrieving.bm25 import Bm25
from evals.retrieving.chain import Chain
from evals.retrieving.contract import Query, Ranking, Retriever, Step, TrainCase, Tuning
from evals.retrieving.cross_encoder import CrossEncoded, CrossEncoder
from evals.retrieving.cutting import Adaptive, Threshold, Top
from evals.retrieving.delivering import Deduplicate, Neighbours, TokenBudget
from evals.retrieving.dense import Dense
from evals.retrieving.fulltext import FullText
from evals.retrieving.fusing import Fuse
from evals.retrieving.graph import Graph, GraphRanked
from evals.retrieving.hybrid import Hybrid
from evals.retrieving.index import OpenIndex
from evals.retrieving.lancedb_hybrid import LanceHybrid
from evals.retrieving.metadata import Metadata
from evals.retrieving.nothing import Nothing
from evals.retrieving.ordering import DocumentOrder, GroupByDocument, LostInTheMiddle, RecentFirst
from evals.retrieving.powerset import Powerset
from evals.retrieving.recency import Recency
from evals.understanding.registry import QUERY_TRANSFORMS

RETRIEVERS: dict[str, type[Retriever]] = {
    "bm25": Bm25,
    "dense": Dense,
    "fulltext": FullText,
    "metadata": Metadata,
    "recency": Recency,
    "hybrid": Hybrid,
    "lancedb": LanceHybrid,
    "fuse": Fuse,
    "cross_encoder": CrossEncoded,
    "graph": GraphRanked,
    "nothing": Nothing,
    "chain": Chain,
}

STEPS: dict[str, type[Step]] = {
    "cross_encoder": CrossEncoder,
    "graph": Graph,
    "top": Top,
    "threshold": Threshold,
    "adaptive": Adaptive,
    "neighbours": Neighbours,
    "deduplicate": Deduplicate,
    "group_by_document": GroupByDocument,
    "recent_first": RecentFirst,
    "document_order": DocumentOrder,
    "lost_in_the_middle": LostInTheMiddle,
    "token_budget": TokenBudget,
}


class _Written(OneKind):
    """A recipe that is stored as it was written, so that a new kind leaves the identity of others alone."""

    @model_serializer(mode="wrap")
    def _only_its_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {self.kind: handler(self)[self.kind]}


class _RetrieverRecipe(_Written):
    """A retriever as a study writes it: `{kind: {its parameters}}`, or a list: a chain."""

    @model_validator(mode="before")
    @classmethod
    def _reads_a_list_as_a_chain(cls, given: Any) -> Any:
        return {"chain": {"steps": given}} if isinstance(given, list) else given

    def ranked(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank as a part of another retriever: from memory where it can be, noted in the query's trace."""
        before = len(query.trace.steps) if query.trace else 0
        ranking: Ranking = self.recipe.found(query, index)
        if query.trace and len(query.trace.steps) == before:  # else its own parts have said what they found
            query.trace.note(self.kind, "arm", ranking)
        return ranking

    def tuned(self, cases: Sequence[TrainCase], index: OpenIndex, metric: RetrievalMetric) -> Tuning[Self]:
        """Return the same recipe with what is to be tuned chosen on train questions."""
        found = self.recipe.tuned(cases, index, metric)
        return Tuning(self.model_copy(update={self.kind: found.tuned}), found.chosen)


class _StudyRetriever(_RetrieverRecipe):
    """A retriever of a study, or a powerset, which the study makes several retrievers of."""

    @model_validator(mode="before")
    @classmethod
    def _reads_a_powerset(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("powerset"), list):
            return given
        rest = {key: value for key, value in given.items() if key != "powerset"}
        return {"powerset": {"of": given["powerset"], **rest}}


RetrieverRecipe: Any = one_of("RetrieverRecipe", RETRIEVERS, _RetrieverRecipe)
LinkRecipe: Any = one_of("LinkRecipe", {**QUERY_TRANSFORMS, **RETRIEVERS, **STEPS}, _RetrieverRecipe)
StudyRetriever: Any = one_of("StudyRetriever", {**RETRIEVERS, "powerset": Powerset}, _StudyRetriever)

_NAMES = {"RetrieverRecipe": RetrieverRecipe, "LinkRecipe": LinkRecipe}
for _recipe in (*RETRIEVERS.values(), Powerset, RetrieverRecipe, LinkRecipe, StudyRetriever):
    _recipe.model_rebuild(force=True, _types_namespace=_NAMES)

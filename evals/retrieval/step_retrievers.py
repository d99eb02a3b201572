"""Retrievers that apply one step to another retriever's ranking, written as one kind: a chain of two."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from rag_assay.evals.retrieval.chain import ChainSearcher, TakenStep
from rag_assay.evals.retrieval.component_kinds import AnyRetriever
from rag_assay.evals.retrieval.contract import Depth, Retriever, Searcher, Step
from rag_assay.evals.retrieval.retriever_references import SharedSearcher

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex


class Around(Retriever):
    """Another retriever's candidates after one step, cut at k.

    of: the retriever
    """

    of: AnyRetriever
    k: Depth = 10

    @property
    @abstractmethod
    def step(self) -> Step:
        """The step, as a chain would have it."""

    def versions(self) -> list[str]:
        return [*self.step.versions(), *self.of.all_versions()]

    @property
    def needs_vector(self) -> bool:
        return self.of.needs_vector

    @property
    def widens(self) -> bool:
        return self.of.widens and not self.step.narrows

    @property
    def needs_tuning(self) -> bool:
        return self.of.needs_tuning

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        taken = TakenStep(self.kind, self.step.role, self.step.open(index, context), self.k)
        return ChainSearcher(index, (), SharedSearcher(self.of, index, context), (taken,))

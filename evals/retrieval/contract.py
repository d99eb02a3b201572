"""What retrievers, steps and query transforms keep to; the suites in `tests/contracts` check each one.

Each is a recipe that is opened on an index once and then asked, question by question: `Retriever` ->
`Searcher`, `Step` -> `OpenStep`, `QueryTransform` -> `OpenTransform`.

- Opening asks nothing and changes nothing that others see; what may fail fails at a question, and is its row.
- Expensive state is made at the first question and owned by the `OpenIndex`, `context.models` or the opened
object; nothing else is shared.

A searcher returns its ranking by falling scores. Last steps may set a reading order: then the order of the
rows is the ranking, and scores stay those of the search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from rag_assay.evals.retrieval.query import Kind, Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.warehouse.components import Component, OneOf
from rag_assay.warehouse.registry import Registry

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex

Depth = Annotated[int, Field(ge=1, le=10_000)]


class Searcher(ABC):
    """A retriever opened on one index.

    The contract: scores fall and are finite, ties go by chunk id, no chunk comes twice, never more than `k`,
    nothing that the query does not allow, an empty index and an empty question give an empty ranking, the
    same question gives the same ranking, whatever was asked before it.
    """

    @abstractmethod
    def search(self, query: Query) -> Ranking:
        """Rank the chunks of the index for ``query``, best first; steps inside record in its trace."""

    def close(self) -> None:  # noqa: B027 -- most hold nothing
        """Release its own resources. Closing twice is harmless."""


class Retriever(Component):
    """A way to rank the chunks of an index for a question.

    k: the most passages that it returns
    """

    if TYPE_CHECKING:  # a field, or of a chain a property

        @property
        def k(self) -> int:
            """The most passages that it returns."""

    @property
    def needs_vector(self) -> bool:
        return False

    @property
    def needs_tuning(self) -> bool:
        """Whether something of it is chosen on the train questions of the study."""
        return False

    @property
    def widens(self) -> bool:
        """Whether it delivers more of a passage than its chunk's context, which a new ranking would undo."""
        return False

    @abstractmethod
    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        """Return what searches an index."""

    def at_depth(self, k: int) -> Self:
        return self.model_copy(update={"k": k})


class IndexRetriever(Retriever):
    """A retriever that keeps nothing beside the index between two questions."""

    @abstractmethod
    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        """Rank the chunks of an index that is not empty for a question that is not empty."""

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        return _IndexSearcher(self, index, context)


class _IndexSearcher(Searcher):
    def __init__(self, retriever: IndexRetriever, index: OpenIndex, context: RetrievalContext) -> None:
        self._retriever, self._index, self._context = retriever, index, context

    def search(self, query: Query) -> Ranking:
        is_empty = not len(self._index) or not query.text.strip()
        return nothing() if is_empty else self._retriever.rank(query, self._index, self._context)


@dataclass(frozen=True)
class OpenStep:
    """A step opened on one index; ``apply``: (ranking, query) -> ranking, both unchanged."""

    apply: Callable[[Ranking, Query], Ranking]


class Step(Component):
    """What a chain does with a ranking after its retriever: re-orders, cuts or widens it.

    role: what a trace calls it
    widens: it delivers more of a passage than its chunk's context
    narrows: it delivers each chunk's own context, whatever was delivered before
    costly: a model reads the passages: weights of a fusion are chosen by what stands before it
    """

    role: ClassVar[Kind]
    costly: ClassVar[bool] = False
    widens: ClassVar[bool] = False
    narrows: ClassVar[bool] = False

    @property
    def needs_vector(self) -> bool:
        return False

    @abstractmethod
    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Return what works on rankings of an index."""


class IndexStep(Step):
    """A step that keeps nothing beside the index between two questions."""

    @abstractmethod
    def apply(self, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        """Return the ranking after the step; it changes neither ranking nor query."""

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        return OpenStep(lambda ranking, query: self.apply(ranking, query, index, context))


@dataclass(frozen=True)
class OpenTransform:
    """A query transform opened on one index; several queries are fused by reciprocal rank."""

    read: Callable[[Query], list[Query]]


class QueryTransform(Component):
    """What a chain does with a question before its retriever: filters, rewrites, expands it.

    A transform that changes the text leaves `vector` as it is or None: it is embedded again where one is
    needed. A vector that is no longer that of the question before is taken as meant.
    """

    @property
    def needs_vector(self) -> bool:
        return False

    @abstractmethod
    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenTransform:
        """Return what reads questions to an index."""


# Filled by `evals.study.registry`, so that a chain or a fusion imports no other algorithm
RETRIEVERS: Registry[Retriever] = Registry("retrievers", Retriever)
STEPS: Registry[Step] = Registry("steps", Step)
QUERY_TRANSFORMS: Registry[QueryTransform] = Registry("query_transforms", QueryTransform)


def list_as_chain(written: object) -> object:
    return {"chain": {"steps": written}} if isinstance(written, list) else written


AnyRetriever = Annotated[Retriever, OneOf(RETRIEVERS, shorthand=list_as_chain)]
"""A retriever as a study writes it: `{kind: {its parameters}}`, or a list: a chain."""

AnyLink = Annotated[
    QueryTransform | Retriever | Step, OneOf(QUERY_TRANSFORMS, RETRIEVERS, STEPS, shorthand=list_as_chain)
]
"""What a chain is made of."""

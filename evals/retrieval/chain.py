"""Chains: query transforms, one retriever, then steps on its ranking; and retrievers around one step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from rag_assay.evals.retrieval.contract import (
    AnyLink,
    AnyRetriever,
    Depth,
    OpenStep,
    OpenTransform,
    QueryTransform,
    Retriever,
    Searcher,
    Step,
)
from rag_assay.evals.retrieval.fusion import Rrf, SharedSearcher, either, fuse_rankings
from rag_assay.evals.retrieval.query import Kind, Query
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.warehouse.recipe import error_at

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import Embed, RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex

Item = TypeVar("Item")
RRF = 60  # constant of the fusion of several queries (Cormack et al., 2009)


class Chain(Retriever):
    """What a study writes as a list: `[understanding …, one retriever, steps …]`.

    An understanding step may make several queries of one: each is searched, and the rankings are fused by
    reciprocal ranks. A chain returns as many passages as its retriever and the steps after it leave.

    steps: query transforms, one retriever, steps
    """

    kind: ClassVar[str] = "chain"
    code_version: ClassVar[str] = "1"

    steps: Annotated[tuple[AnyLink, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_its_steps_in_order(self) -> Self:
        found = [number for number, link in enumerate(self.steps) if isinstance(link, Retriever)]
        kinds = [link.kind for link in self.steps]
        if not found:
            raise ValueError(
                "a chain needs one retriever, as in [{bm25: {k: 100}}, {neighbours: {n: 1}}]; "
                f"this one has only {', '.join(kinds)}"
            )
        if len(found) > 1:
            both = ", ".join(kinds[number] for number in found)
            message = (
                f"a chain has one retriever, this one has {both}; fuse them, as in {{fuse: {{of: [...]}}}}"
            )
            raise _at(found[1], message)
        for number, link in enumerate(self.steps):
            if number > found[0] and isinstance(link, QueryTransform):
                raise _at(number, f"`{link.kind}` reads the question; it stands before `{kinds[found[0]]}`")
            if number < found[0] and isinstance(link, Step):
                raise _at(number, f"`{link.kind}` works on a ranking; it stands after `{kinds[found[0]]}`")
        self._refuse_what_is_undone()
        return self

    def _refuse_what_is_undone(self) -> None:
        wide = self.retriever.widens
        for number, link in enumerate(self.steps):
            if number > self._place and wide and isinstance(link, Step) and link.narrows:
                raise _at(
                    number, f"`{link.kind}` ranks chunks, and would undo `neighbours`; it stands before it"
                )
            wide = wide or (number > self._place and _widens(link))

    @property
    def widens(self) -> bool:
        return any(_widens(link) for link in self.steps[self._place :])

    def versions(self) -> list[str]:
        return [self.code_version, *(version for link in self.steps for version in link.all_versions())]

    @property
    def needs_vector(self) -> bool:
        return any(link.needs_vector for link in self.steps)

    @cached_property
    def _place(self) -> int:
        return next(n for n, link in enumerate(self.steps) if isinstance(link, Retriever))

    @property
    def retriever(self) -> Retriever:
        found = self.steps[self._place]
        assert isinstance(found, Retriever)  # noqa: S101 -- by its place
        return found

    @property
    def transforms(self) -> list[QueryTransform]:
        return [link for link in self.steps[: self._place] if isinstance(link, QueryTransform)]

    @property
    def later(self) -> list[Step]:
        return [link for link in self.steps[self._place + 1 :] if isinstance(link, Step)]

    @property
    def k(self) -> int:
        """The `k` of its last step that has one, or its retriever's; what a step adds comes on top."""
        return int(getattr(self.steps[self._sized()], "k"))  # noqa: B009 -- only some steps have one

    def at_depth(self, k: int) -> Self:
        at = self._sized()
        link = self.steps[at]
        changed = link.at_depth(k) if isinstance(link, Retriever) else link.model_copy(update={"k": k})
        return self.model_copy(update={"steps": replaced(self.steps, at, changed)})

    def _sized(self) -> int:
        sized = [n for n, link in enumerate(self.steps) if n >= self._place and hasattr(link, "k")]
        return sized[-1]

    @property
    def needs_tuning(self) -> bool:
        return self.retriever.needs_tuning

    def open(self, index: OpenIndex, context: RetrievalContext) -> ChainSearcher:
        return ChainSearcher(
            index,
            [transform.open(index, context) for transform in self.transforms],
            SharedSearcher(self.retriever, index, context),
            [TakenStep(step.kind, step.role, step.open(index, context)) for step in self.later],
            fused_k=self.retriever.k,
            embed=context.embed if self.needs_vector else None,
        )

    def with_retriever(self, retriever: Retriever) -> Self:
        return self.model_copy(update={"steps": replaced(self.steps, self._place, retriever)})


class TakenStep(NamedTuple):
    """A step of a chain; most: passages that it leaves at most; None: as many as it does"""

    name: str
    role: Kind
    step: OpenStep
    most: int | None = None


class ChainSearcher(Searcher):
    """Reads the question, searches, and takes the steps; each records its candidates in the query's trace."""

    def __init__(
        self,
        index: OpenIndex,
        transforms: Sequence[OpenTransform],
        part: SharedSearcher,
        steps: Sequence[TakenStep],
        *,
        fused_k: int = 0,
        embed: Embed | None = None,
    ) -> None:
        self._index = index
        self._transforms = transforms
        self._part = part
        self._steps = steps
        self._fused_k = fused_k
        self._embed = embed

    def search(self, query: Query) -> Ranking:
        if not len(self._index) or not query.text.strip():
            return nothing()
        queries = self.read(query)
        if not queries:
            return nothing()
        found = [self._part.found(one) for one in queries]
        for one in found:
            query.trace.include(one.steps, one.notes, one.understood)
        # A part of its retriever may have allowed less than the query does.
        parts = zip(queries, found, strict=True)
        masks = [prefilter.allowed if part.allowed is None else part.allowed for prefilter, part in parts]
        query.trace.allowed = either(masks)
        ranking = self._fused([one.ranking for one in found], query) if len(found) > 1 else found[0].ranking
        for name, role, step, most in self._steps:
            ranking = step.apply(ranking, queries[0]).take(slice(most))
            query.trace.record(name, role, ranking)
        return ranking

    def read(self, query: Query) -> list[Query]:
        queries = [query]
        for transform in self._transforms:
            queries = [self._embedded(new, old) for old in queries for new in transform.read(old)]
        return queries

    def _embedded(self, new: Query, old: Query) -> Query:
        if self._embed is None or not new.text.strip():
            return new
        stale = new.vector is None or (new.text != old.text and new.vector is old.vector)
        return replace(new, vector=self._embed([new.text])[0]) if stale else new

    def _fused(self, found: list[Ranking], query: Query) -> Ranking:
        ranking = fuse_rankings(found, (1.0,) * len(found), Rrf(k=RRF), self._fused_k)
        query.trace.record("queries", "fuse", ranking)
        return ranking

    def close(self) -> None:
        self._part.close()


def replaced(items: tuple[Item, ...], at: int, item: Item) -> tuple[Item, ...]:
    return (*items[:at], item, *items[at + 1 :])


def _widens(link: AnyLink) -> bool:
    return not isinstance(link, QueryTransform) and link.widens


def _at(number: int, reason: str) -> ValidationError:
    return error_at(("steps", number), reason)


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

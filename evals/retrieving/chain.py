"""Steps in a row: what is done with the question, one retriever, what is done with its ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from typing import Annotated, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError, model_validator

from evals.measuring.contract import RetrievalMetric
from evals.retrieving.contract import (
    Finish,
    Query,
    QueryTransform,
    Ranking,
    Retriever,
    Step,
    TrainCase,
    Tuning,
    nothing,
)
from evals.retrieving.fusing import fused
from evals.retrieving.index import OpenIndex
from evals.retrieving.kinds import AnyLink
from evals.retrieving.methods import Rrf
from warehouse.recipe import error_at

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
            told = f"a chain has one retriever, this one has {both}; fuse them, as in {{fuse: {{of: [...]}}}}"
            raise _at(found[1], told)
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
        """When its retriever or a step does."""
        return any(_widens(link) for link in self.steps[self._place :])

    def versions(self) -> list[str]:
        """Return its own version and those of its steps."""
        return [self.code_version, *(version for link in self.steps for version in link.all_versions())]

    @property
    def needs_vector(self) -> bool:
        """When one of its steps does."""
        return any(link.needs_vector for link in self.steps)

    @cached_property
    def _place(self) -> int:
        return next(n for n, link in enumerate(self.steps) if isinstance(link, Retriever))

    @property
    def retriever(self) -> Retriever:
        """Its retriever."""
        found = self.steps[self._place]
        assert isinstance(found, Retriever)  # noqa: S101 -- by its place
        return found

    @property
    def _transforms(self) -> list[QueryTransform]:
        return [link for link in self.steps[: self._place] if isinstance(link, QueryTransform)]

    @property
    def _later(self) -> list[Step]:
        return [link for link in self.steps[self._place + 1 :] if isinstance(link, Step)]

    @property
    def k(self) -> int:
        """How many passages it returns at most: what its last step that has a `k` says, or its retriever.

        What a step adds of its own accord (`graph: {add: …}`) comes on top.
        """
        return int(getattr(self.steps[self._sized()], "k"))  # noqa: B009 -- only some steps have one

    def at_depth(self, k: int) -> Self:
        """Return the same chain with another `k` where its own is said."""
        at = self._sized()
        link = self.steps[at]
        changed = link.at_depth(k) if isinstance(link, Retriever) else link.model_copy(update={"k": k})
        return self.model_copy(update={"steps": replaced(self.steps, at, changed)})

    def _sized(self) -> int:
        sized = [n for n, link in enumerate(self.steps) if n >= self._place and hasattr(link, "k")]
        return sized[-1]

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Read the question, search, and take the steps; each notes its candidates in the query's trace."""
        if not len(index) or not query.text.strip():
            return nothing()
        queries = self._read(query, index)
        if not queries:
            return nothing()
        found, masks = [], []
        for one in queries:
            if query.trace:
                query.trace.allowed = None
            found.append(self.retriever.ranked(one, index))
            # A part of its retriever may have allowed less than the query does.
            inner = query.trace.allowed if query.trace else None
            masks.append(one.allowed if inner is None else inner)
        if query.trace:
            query.trace.allowed = either(masks)
        ranking = found[0] if len(found) == 1 else self._fused(found, query)
        for step in self._later:
            ranking = step.apply(ranking, queries[0], index)
            if query.trace:
                query.trace.note(step.kind, step.role, ranking)
        return ranking

    def _read(self, query: Query, index: OpenIndex) -> list[Query]:
        """Return the queries that the understanding steps make of one."""
        queries = [query]
        for transform in self._transforms:
            queries = [_embedded(new, old, self) for old in queries for new in transform.read(old, index)]
        return queries

    @property
    def needs_tuning(self) -> bool:
        """When its retriever does."""
        return self.retriever.needs_tuning

    def tuned(self, cases: Sequence[TrainCase], index: OpenIndex, metric: RetrievalMetric) -> Tuning[Self]:
        """Tune its retriever on the train questions as its understanding steps read them.

        It is tuned by what the chain delivers, but for steps from the first one on that a model takes. Where
        a question is read as several, each of them counts.
        """
        if not self.needs_tuning:
            return Tuning(self)
        read = [
            TrainCase(one, case.gold, self._finish(one, index, case.finish))
            for case in cases
            for one in self._read(case.query, index)
        ]
        found = self.retriever.tuned(read, index, metric)
        steps = replaced(self.steps, self._place, found.tuned)
        return Tuning(self.model_copy(update={"steps": steps}), found.chosen)

    def _finish(self, query: Query, index: OpenIndex, outer: tuple[Finish, ...]) -> tuple[Finish, ...]:
        """Return what is done with the retriever's ranking of a question, up to the first costly step."""
        later = self._later
        tried = list(takewhile(lambda step: not step.costly, later))
        own = tuple(partial(step.apply, query=query, index=index) for step in tried)
        return own + outer if len(tried) == len(later) else own

    def _fused(self, found: list[Ranking], query: Query) -> Ranking:
        """Fuse the rankings of several queries: the sum of 1 / (60 + rank), ties by chunk id."""
        ranking = fused(found, (1.0,) * len(found), Rrf(k=RRF), self.retriever.k)
        if query.trace:
            query.trace.note("queries", "fuse", ranking)
        return ranking


def replaced(items: tuple[Item, ...], at: int, item: Item) -> tuple[Item, ...]:
    """Return a tuple with another item at a place.

    >>> replaced((1, 2, 3), 1, 0)
    (1, 0, 3)
    """
    return (*items[:at], item, *items[at + 1 :])


def either(masks: Sequence[npt.NDArray[np.bool_] | None]) -> npt.NDArray[np.bool_] | None:
    """Return the rows that some of the masks let through, each of shape (chunks,); None: all.

    >>> either([np.array([True, False, False]), np.array([False, False, True])]).tolist()
    [True, False, True]
    """
    given = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(given) if given and len(given) == len(masks) else None


def _widens(link: AnyLink) -> bool:
    return not isinstance(link, QueryTransform) and link.widens


def _embedded(new: Query, old: Query, chain: Chain) -> Query:
    """Give a query whose text was changed a vector of its own, where one is needed."""
    if not chain.needs_vector or not new.text.strip() or new.context.embed is None:
        return new
    stale = new.vector is None or (new.text != old.text and new.vector is old.vector)
    return replace(new, vector=new.context.embed([new.text])[0]) if stale else new


def _at(number: int, reason: str) -> ValidationError:
    return error_at(("steps", number), reason)

"""Fuses the rankings of several retrievers, which may be shared, into one by one of several methods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from rag_assay.evals.retrieval.context import SearchResult
from rag_assay.evals.retrieval.contract import AnyRetriever, Depth, Retriever, Searcher
from rag_assay.evals.retrieval.query import Query, Trace, TraceStep
from rag_assay.evals.retrieval.ranking import Mask, Ranking, Rows
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.ranking import Scores

Normalisation = Literal["min_max", "z_score", "sum"]


def min_max(scores: Scores) -> Scores:
    """Return (score - lowest) / (highest - lowest), in [0, 1]; equal scores are all 1, each being the best.

    >>> min_max(np.array([9.0, 7.0, 5.0])).tolist(), min_max(np.array([3.0, 3.0])).tolist()
    ([1.0, 0.5, 0.0], [1.0, 1.0])
    """
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


def z_score(scores: Scores) -> Scores:
    """Return (score - mean) / standard deviation (of the ranking, not of a sample); equal scores are all 0.

    >>> z_score(np.array([9.0, 5.0])).tolist(), z_score(np.array([3.0])).tolist()
    ([1.0, -1.0], [0.0])
    """
    if not len(scores) or scores.max() == scores.min():
        return np.zeros_like(scores)
    spread = min_max(scores)  # the same z; the squares of scores near 0 would be 0, and so their deviation
    return (spread - spread.mean()) / spread.std()


def sum_to_one(scores: Scores) -> Scores:
    """Return (score - lowest) / sum of these, which add up to 1; equal scores have equal shares.

    The lowest is taken off first because scores may be negative, as in ranx (`sum_norm`).

    >>> sum_to_one(np.array([6.0, 4.0, 3.0])).tolist(), sum_to_one(np.array([2.0, 2.0])).tolist()
    ([0.75, 0.25, 0.0], [0.5, 0.5])
    """
    if not len(scores):
        return scores
    raised = scores - scores.min()
    total = raised.sum()
    return raised / total if total > 0 else np.full_like(scores, 1 / len(scores))


NORMALISED: dict[Normalisation, Callable[[Scores], Scores]] = {
    "min_max": min_max,
    "z_score": z_score,
    "sum": sum_to_one,
}


Floats: TypeAlias = "npt.NDArray[np.float64]"
LEAST = 0.001  # of [0, 1]: far below any other score of a ranking of 1,000, and above 0
DIGITS = 11  # of a fused score that are kept, of what the best possible candidate would get


class Method(Strict):
    """A way to fuse."""

    @abstractmethod
    def points(self, ranking: Ranking) -> Scores:
        """Return what each row of one arm's ranking gets, shape (n,)."""

    def lacking(self, points: Scores) -> float:
        return 0.0

    @abstractmethod
    def combined(self, points: Floats, weights: Floats) -> Floats:
        """Return fused scores, shape (candidates, choices), of points (candidates, arms) and weights."""

    def scores(self, points: Floats, weights: Floats) -> Floats:
        """Return `combined`, rounded: equal sums tie whatever the order in which arms are added."""
        found = self.combined(points, weights)
        if not len(found):
            return found
        best = np.abs(self.combined(points.max(axis=0, keepdims=True), weights))
        step = np.where(best > 0, best, 1.0) / 10**DIGITS
        found /= step
        np.rint(found, out=found)
        found *= step
        return found


class _Summed(Method):
    def combined(self, points: Floats, weights: Floats) -> Floats:
        """Not `@`: BLAS adds some rows in another order, and ties would break."""
        total = np.zeros((len(points), len(weights)))
        for arm in range(points.shape[1]):
            total += points[:, arm, None] * weights[None, :, arm]
        return total


class Rrf(_Summed):
    """Reciprocal rank fusion: a chunk's score is the sum of weight / (k + rank) over its retrievers.

    Cormack, Clarke and Büttcher, SIGIR 2009. Ranks count from 1; a retriever that lacks the chunk adds 0.

    k: 60 in the paper; larger values level the ranks
    """

    k: Annotated[float, Field(gt=0, le=10_000)] = 60.0

    def points(self, ranking: Ranking) -> Scores:
        return 1 / (self.k + 1 + np.arange(len(ranking)))


class _Scored(Method):
    """Normalised scores; a retriever that lacks a candidate gives what it gives to its own last one.

    normalise: min_max | z_score | sum. With min_max and sum the last passage of a retriever gets 0, and
        so does one that it lacks; with z_score that is its lowest z (below 0). An empty ranking gives 0
    """

    normalise: Normalisation = "min_max"

    def points(self, ranking: Ranking) -> Scores:
        return NORMALISED[self.normalise](ranking.scores)

    def lacking(self, points: Scores) -> float:
        return float(points.min()) if self.normalise == "z_score" and len(points) else 0.0


class Weighted(_Summed, _Scored):
    """The sum of weight * normalised score (CombSUM of Fox and Shaw, TREC-2, with weights)."""


class Max(_Scored):
    """The largest weight * normalised score of any retriever (CombMAX): the best opinion counts.

    A retriever of weight 0 has none: beside z-scores below 0 its 0 would be the best.
    """

    def combined(self, points: Floats, weights: Floats) -> Floats:
        best = np.full((len(points), len(weights)), -np.inf)
        for arm in range(points.shape[1]):
            speaks = weights[:, arm] > 0
            weighted = points[:, arm, None] * weights[None, speaks, arm]
            best[:, speaks] = np.maximum(best[:, speaks], weighted)
        return best


class Arithmetic(_Summed, _Scored):
    """The weighted arithmetic mean of normalised scores: the order of `weighted`, on their own scale."""

    def combined(self, points: Floats, weights: Floats) -> Floats:
        return super().combined(points, weights) / weights.sum(axis=1)


class RelativeScore(_Summed):
    """Relative score fusion, as Weaviate has it: min-max scores, weights made to sum to 1, added.

    A candidate that a retriever lacks gets 0 from it. The scores lie in [0, 1].
    """

    def points(self, ranking: Ranking) -> Scores:
        return min_max(ranking.scores)

    def combined(self, points: Floats, weights: Floats) -> Floats:
        return super().combined(points, weights / weights.sum(axis=1, keepdims=True))


class _Positive(Method):
    """Normalised scores that are never 0, since one 0 would make the whole mean 0.

    normalise: min_max | sum (z-scores may be negative, and have no such mean)
    least: the lowest score, also of a candidate that a retriever lacks
    """

    normalise: Literal["min_max", "sum"] = "min_max"
    least: Annotated[float, Field(gt=0, le=0.5)] = LEAST

    def points(self, ranking: Ranking) -> Scores:
        return np.maximum(NORMALISED[self.normalise](ranking.scores), self.least)

    def lacking(self, points: Scores) -> float:
        return self.least


class Geometric(_Positive, _Summed):
    """The weighted geometric mean of normalised scores: exp(sum of weight * log score / sum of weights)."""

    def combined(self, points: Floats, weights: Floats) -> Floats:
        return np.exp(super().combined(np.log(points), weights) / weights.sum(axis=1))


class Harmonic(_Positive, _Summed):
    """The weighted harmonic mean of normalised scores: sum of weights / sum of weight / score."""

    def combined(self, points: Floats, weights: Floats) -> Floats:
        return weights.sum(axis=1) / super().combined(1 / points, weights)


METHODS = ("rrf", "weighted", "relative_score", "max", "arithmetic", "geometric", "harmonic")
Weight = Annotated[float, Field(ge=0, le=1_000_000)]
LEAST_WEIGHT = 0.000001  # of the largest: products with smaller ones run out of a float's range


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


class Fuse(Retriever):
    """Fuse the rankings of several retrievers, by one method; rrf unless another one is given.

    rrf: sum of weight / (k + rank)
    weighted: sum of weight * normalised score
    relative_score: `weighted` of min_max scores, by weights that add up to 1
    max: largest weight * normalised score
    arithmetic, geometric, harmonic: weighted mean of normalised scores
    of: retrievers, each with its own depth
    weights: one per retriever, 0 to 1,000,000 and not all below 0.000001; default: all 1; `tuned`:
        chosen on the train questions of the study. What only a retriever of weight 0 found stays a
        candidate
    """

    kind: ClassVar[str] = "fuse"
    code_version: ClassVar[str] = "3"

    rrf: Rrf | None = None
    weighted: Weighted | None = None
    relative_score: RelativeScore | None = None
    max: Max | None = None
    arithmetic: Arithmetic | None = None
    geometric: Geometric | None = None
    harmonic: Harmonic | None = None
    of: Annotated[tuple[AnyRetriever, ...], Field(min_length=2)]
    weights: tuple[Weight, ...] | Literal["tuned"] | None = None
    k: Depth = 10

    @model_validator(mode="before")
    @classmethod
    def _is_rrf_by_default(cls, value: Any) -> Any:
        if isinstance(value, dict) and all(value.get(name) is None for name in METHODS):
            return {**value, "rrf": value.get("rrf") or {}}
        return value

    @model_validator(mode="after")
    def _has_one_method(self) -> Self:
        named = [name for name in METHODS if getattr(self, name) is not None]
        if len(named) != 1:
            raise ValueError(f"give exactly one method to fuse by, not {' and '.join(named)}")
        return self

    @model_validator(mode="after")
    def _has_arms_of_chunks(self) -> Self:
        wide = [number for number, arm in enumerate(self.of, 1) if arm.widens]
        if wide:
            raise ValueError(
                f"retriever {wide[0]} delivers passages wider than chunks (`neighbours`), which a fusion of "
                "chunks would undo; put that step after the fusion"
            )
        return self

    @model_validator(mode="after")
    def _has_a_weight_an_arm(self) -> Self:
        if isinstance(self.weights, tuple):
            if len(self.weights) != len(self.of):
                many = len(self.of)
                raise ValueError(f"{many} retrievers need {many} weights, not {len(self.weights)}")
            if max(self.weights) < LEAST_WEIGHT:
                raise ValueError(f"at least one weight must be {LEAST_WEIGHT:f} or above")
        return self

    @model_serializer(mode="wrap")
    def _only_its_method(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A new method leaves the identity of the others alone.
        return {key: value for key, value in handler(self).items() if key not in METHODS or value is not None}

    @property
    def method(self) -> Method:
        return next(found for name in METHODS if (found := getattr(self, name)) is not None)

    def versions(self) -> list[str]:
        return [self.code_version, *(version for arm in self.of for version in arm.all_versions())]

    @property
    def needs_vector(self) -> bool:
        return any(arm.needs_vector for arm in self.of)

    @property
    def needs_tuning(self) -> bool:
        return self.weights == "tuned" or any(arm.needs_tuning for arm in self.of)

    def with_weights(self, weights: Sequence[float]) -> Self:
        return type(self).model_validate({**self.model_dump(), "weights": tuple(weights)})

    def open(self, index: OpenIndex, context: RetrievalContext) -> FuseSearcher:
        return FuseSearcher(self, [SharedSearcher(arm, index, context) for arm in self.of])


class FuseSearcher(Searcher):
    """Searches with every arm, and fuses what they found."""

    def __init__(self, recipe: Fuse, arms: Sequence[SharedSearcher]) -> None:
        self._recipe = recipe
        self._arms = arms

    def search(self, query: Query) -> Ranking:
        recipe = self._recipe
        if recipe.weights == "tuned":
            raise InputError(
                "fuse: its weights are `tuned`, and none have been chosen. Tuning needs a train question "
                "set: give one in the study, or write the weights."
            )
        weights = recipe.weights or (1.0,) * len(recipe.of)
        ranking = fuse_rankings(self.arms(query), weights, recipe.method, recipe.k)
        query.trace.record(recipe.kind, "fuse", ranking)
        return ranking

    def arms(self, query: Query) -> list[Ranking]:
        """Return each arm's ranking, as deep as the arm says: what weights are chosen on."""
        found = [arm.found(query) for arm in self._arms]
        for one in found:
            query.trace.include(one.steps, one.notes, one.understood)
        query.trace.allowed = either([one.allowed for one in found])  # what any arm was allowed to find
        return [one.ranking for one in found]

    def close(self) -> None:
        for arm in self._arms:
            arm.close()


def either(masks: Sequence[Mask | None]) -> Mask | None:
    limiting = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(limiting) if limiting and len(limiting) == len(masks) else None


def candidates(rankings: Sequence[Ranking], method: Method) -> tuple[Rows, Floats]:
    """Return the rows that any arm holds, rising, and each one's points from each arm, shape (rows, arms)."""
    rows, inverse = np.unique(np.concatenate([ranking.rows for ranking in rankings]), return_inverse=True)
    points = np.empty((len(rows), len(rankings)))
    begin = 0
    for arm, ranking in enumerate(rankings):
        scores_of_arm = method.points(ranking)
        points[:, arm] = method.lacking(scores_of_arm)
        points[inverse[begin : begin + len(ranking)], arm] = scores_of_arm
        begin += len(ranking)
    return rows, points


def fuse_rankings(rankings: Sequence[Ranking], weights: Sequence[float], method: Method, k: int) -> Ranking:
    """Fuse rankings by a method; return the best k, equal scores by chunk id.

    >>> a = Ranking(np.array([3, 5, 8]), np.array([9.0, 8.0, 5.0]))
    >>> b = Ranking(np.array([5, 8]), np.array([0.7, 0.1]))
    >>> best = fuse_rankings([a, b], (0.4, 0.6), Weighted(), 10)
    >>> best.rows.tolist(), best.scores.round(6).tolist()  # 5: 0.4 * 3/4 + 0.6; 3: 0.4 * 1; 8: last in both
    ([5, 3, 8], [0.9, 0.4, 0.0])
    >>> best = fuse_rankings([a, b], (1.0, 1.0), Rrf(k=60), 2)
    >>> best.rows.tolist(), best.scores.round(6).tolist()  # 5: 1/62 + 1/61; 8: 1/63 + 1/62
    ([5, 8], [0.032522, 0.032002])
    """
    rows, points = candidates(rankings, method)
    scores = method.scores(points, np.array([weights], np.float64))[:, 0]
    return Ranking.best(rows, scores, k)

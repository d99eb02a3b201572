"""Fusion methods: how the scores of several rankings become one score.

A method turns an arm's ranking into points, and combines the points (candidates x arms) by weights (choices x
arms), so that `fusion_tuning.py` tries many choices at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from rag_assay.warehouse.recipe import Strict

if TYPE_CHECKING:
    import numpy.typing as npt

    from rag_assay.evals.retrieval.ranking import Ranking, Scores

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

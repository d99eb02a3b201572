"""Steps that cut a ranking: at a number, a score, or the largest gap."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import Depth, OpenStep, Step
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Kind
from rag_assay.evals.retrieval.ranking import Ranking, Scores

DECIMALS = 9  # of a drop and of a curvature that are compared
LEAST = 10  # passages: with fewer, evidence was lost on six of six collections (docs/retrieval-results.md)
EXACT = 1e-12  # share of a score below which differences are those of floats


class Top(Step):
    """Keeps the first k.

    k: the most passages that are kept
    """

    kind: ClassVar[str] = "top"
    code_version: ClassVar[str] = "1"
    role: ClassVar[Kind] = "cut"

    k: Depth = 10

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Keep the first k."""
        return OpenStep(lambda ranking, query: ranking.take(slice(self.k)))


class Threshold(Step):
    """Keeps what reaches a score.

    at_least: between 0 and 1, both excluded. Default: 0.2. Half of the best BM25 score cuts evidence off
    of: best (that share of the best score; where the best is not above 0, only what equals it is kept)
        | absolute (the score itself: of use for cosines, shares and cross-encoders, not for BM25)

    What lacks less than a millionth of a millionth of the score to reach reaches it: 0.1 of 3.0 is 0.3.
    """

    kind: ClassVar[str] = "threshold"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "cut"

    at_least: Annotated[float, Field(gt=0, lt=1)] = 0.2
    of: Literal["best", "absolute"] = "best"

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Keep what reaches the score, in its order."""
        return OpenStep(lambda ranking, query: self._reaching(ranking))

    def _reaching(self, ranking: Ranking) -> Ranking:
        if not len(ranking):
            return ranking
        best = float(ranking.scores.max())
        share = self.at_least * best if best > 0 else best
        bound = share if self.of == "best" else self.at_least
        return ranking.take(ranking.scores >= bound - EXACT * abs(bound))


class Adaptive(Step):
    """Ends a ranking where its scores say so: as many passages as the question has good ones.

    With a smaller `min` than 10 it cuts evidence off: at `steepest` and 1, nDCG@10 fell by 0.10 on average
    over six collections (docs/retrieval-results.md).

    method: steepest (before the largest drop from one score to the next) | curvature (before the point where
        the curve of the scores, brought to 0..1 both ways, bends most from falling to flat)
    min, max: at least and at most so many are kept; default: 10 (or `max`, where that is less) and 100. A
        ranking of no more than `min` passages stays whole

    A ranking without a drop, or without a bend, is kept as it is, up to `max`. Equal scores stay together.
    """

    kind: ClassVar[str] = "adaptive"
    code_version: ClassVar[str] = "2"
    role: ClassVar[Kind] = "cut"

    method: Literal["steepest", "curvature"] = "curvature"
    min: Depth | None = None
    max: Depth = 100

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.min is not None and self.min > self.max:
            raise ValueError(f"min ({self.min}) must not be larger than max ({self.max})")
        return self

    @property
    def least(self) -> int:
        """How many are kept at least."""
        return min(LEAST, self.max) if self.min is None else self.min

    def open(self, index: OpenIndex, context: RetrievalContext) -> OpenStep:
        """Keep the part before the drop or bend, by falling score."""
        return OpenStep(lambda ranking, query: self._before_the_end(ranking))

    def _before_the_end(self, ranking: Ranking) -> Ranking:
        order = np.lexsort((ranking.rows, -ranking.scores))[: self.max]
        falling = ranking.scores[order]
        if len(falling) > self.least:
            keep = steepest(falling) if self.method == "steepest" else bend(falling)
            last = falling[max(self.least, keep) - 1]
            order = order[falling >= last]
        return ranking.take(np.sort(order))


def steepest(scores: Scores) -> int:
    """Return how many falling scores stand before the largest drop, the first of equal ones.

    >>> steepest(np.array([10, 9.5, 9, 2, 1.8, 1.5])), steepest(np.array([1.0, 1.0]))
    (3, 2)
    >>> steepest(np.array([0.3, 0.2, 0.1]))
    1
    """
    spread = scores[0] - scores[-1] if len(scores) else 0.0
    if spread <= 0:
        return len(scores)
    # As shares of the whole fall, rounded: 0.3 - 0.2 and 0.2 - 0.1 are equal drops.
    drops = np.round((scores[:-1] - scores[1:]) / spread, DECIMALS)
    return int(np.argmax(drops)) + 1


def bend(scores: Scores) -> int:
    """Return how many falling scores stand before the point of the largest curvature y'' / (1 + y'^2)^1.5.

    Derivatives are central differences of the scores over their places, both brought to 0..1.

    >>> bend(np.array([10, 9.5, 9, 2, 1.8, 1.5])), bend(np.array([3.0, 2.0, 1.0])), bend(np.array([2.0, 1.0]))
    (3, 3, 2)
    """
    spread = scores[0] - scores[-1] if len(scores) > 2 else 0.0
    if spread <= 0:
        return len(scores)
    curve = (scores - scores[-1]) / spread
    step = 1 / (len(curve) - 1)
    first = (curve[2:] - curve[:-2]) / (2 * step)
    second = (curve[2:] - 2 * curve[1:-1] + curve[:-2]) / step**2
    curvature = np.round(second / (1 + first**2) ** 1.5, DECIMALS)
    return int(np.argmax(curvature)) + 1 if curvature.max() > 0 else len(scores)

"""Several rankings become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from evals.retrieving.contract import Depth, Query, Ranking, Retriever
from evals.retrieving.index import OpenIndex
from warehouse.recipe import Strict

if TYPE_CHECKING:
    RetrieverRecipe = Any


class Rrf(Strict):
    """Reciprocal rank fusion: a chunk's score is the sum of weight / (k + rank) over the arms that hold it.

    Cormack, Clarke and Büttcher, SIGIR 2009. Ranks count from 1; an arm that lacks the chunk adds nothing.

    k: 60 in the paper; larger values level the ranks
    """

    k: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0


class Fuse(Retriever):
    """Fuse the rankings of several retrievers.

    of: the arms, each a retriever with its own depth
    weights: one an arm; all 1 unless said otherwise
    """

    code_version: ClassVar[str] = "1"

    rrf: Rrf = Rrf()
    of: Annotated[tuple[RetrieverRecipe, ...], Field(min_length=2)]
    weights: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] | None = None
    k: Depth = 10

    @model_validator(mode="after")
    def _has_a_weight_an_arm(self) -> Self:
        if self.weights is not None and len(self.weights) != len(self.of):
            raise ValueError(f"{len(self.of)} arms need {len(self.of)} weights, not {len(self.weights)}")
        return self

    def versions(self) -> list[str]:
        """Return its own version and those of its arms."""
        return [self.code_version, *(version for arm in self.of for version in arm.recipe.versions())]

    @property
    def needs_vector(self) -> bool:
        """When one of its arms does."""
        return any(arm.recipe.needs_vector for arm in self.of)

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank with every arm, then fuse."""
        rankings = [arm.recipe.rank(query, index) for arm in self.of]
        return reciprocal_rank_fusion(rankings, self.weights or (1.0,) * len(rankings), self.rrf.k, self.k)


def reciprocal_rank_fusion(
    rankings: list[Ranking], weights: tuple[float, ...], constant: float, k: int
) -> Ranking:
    """Fuse rankings by the sum of weight / (constant + rank); return the best k.

    >>> a = Ranking(np.array([3, 5]), np.array([9.0, 8.0]))
    >>> b = Ranking(np.array([5]), np.array([0.1]))
    >>> fused = reciprocal_rank_fusion([a, b], (1.0, 1.0), 60, 10)
    >>> fused.rows.tolist(), [round(float(s), 6) for s in fused.scores]  # 1/62 + 1/61, 1/61
    ([5, 3], [0.032522, 0.016393])
    """
    rows = np.concatenate([ranking.rows for ranking in rankings])
    points = np.concatenate(
        [
            weight / (constant + 1 + np.arange(len(r.rows)))
            for r, weight in zip(rankings, weights, strict=True)
        ]
    )
    distinct, inverse = np.unique(rows, return_inverse=True)
    return Ranking.best(
        distinct, np.bincount(inverse, weights=points, minlength=len(distinct)).astype(np.float64), k
    )

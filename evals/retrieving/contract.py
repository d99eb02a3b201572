"""What every retriever keeps to; `tests/contracts/test_retrievers.py` holds each one to it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evals.retrieving.index import OpenIndex
from warehouse.recipe import Recipe

Depth = Annotated[int, Field(ge=1, le=10_000)]
Vector = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Query:
    """A question on its way through a retriever.

    vector: its unit vector, shape (dimensions,); None when no part of the retriever needs one
    """

    text: str
    vector: Vector | None = None


@dataclass(frozen=True)
class Ranking:
    """Rows of an index, best first, each once.

    rows: positions in the index, shape (n,)
    scores: falling and finite, shape (n,); equal scores are ordered by chunk id
    """

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]

    @staticmethod
    def best(rows: npt.NDArray[np.int64], scores: npt.NDArray[np.float64], k: int) -> Ranking:
        """Sort by falling score, ties by position (an index is sorted by chunk id), and keep the first k.

        >>> Ranking.best(np.array([4, 2, 7]), np.array([1.0, 1.0, 3.0]), 2).rows.tolist()
        [7, 2]
        """
        if len(rows) > 4 * k:  # sort only what can be among the first k, all ties of the last one included
            bound = np.partition(scores, len(scores) - k)[len(scores) - k]
            keep = scores >= bound
            rows, scores = rows[keep], scores[keep]
        order = np.lexsort((rows, -scores))[:k]
        return Ranking(rows[order].astype(np.int64), scores[order].astype(np.float64))


class Retriever(Recipe):
    """A way to rank the chunks of an index for a question.

    The contract: scores fall and are finite, ties go by chunk id, no chunk comes twice, never more than `k`,
    an empty index and an empty question give an empty ranking, the same input gives the same ranking.
    """

    @property
    def needs_vector(self) -> bool:
        """Whether the question must be embedded for it."""
        return False

    @abstractmethod
    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank the chunks of ``index`` for ``query``, best first."""


def nothing() -> Ranking:
    """Return the empty ranking."""
    return Ranking(np.zeros(0, np.int64), np.zeros(0, np.float64))

"""Nearest chunks by the cosine of their vectors."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from evals.retrieving.contract import Depth, Query, Ranking, Retriever, nothing
from evals.retrieving.index import OpenIndex


class Dense(Retriever):
    """Exact cosine similarity between the question's vector and every chunk's."""

    code_version: ClassVar[str] = "1"

    k: Depth = 10

    @property
    def needs_vector(self) -> bool:
        """Always."""
        return True

    def rank(self, query: Query, index: OpenIndex) -> Ranking:
        """Rank all chunks; both sides are unit vectors, so the dot product is the cosine."""
        if not len(index) or not query.text.strip():
            return nothing()
        if query.vector is None:
            raise ValueError("dense retrieval needs the question's vector")
        # Not `@`: BLAS sums some rows in another order than others, so that equal vectors would not tie.
        scores = np.einsum("ij,j->i", index.vectors, query.vector).astype(np.float64)
        rows = np.arange(len(scores)) if query.allowed is None else np.flatnonzero(query.allowed)
        return Ranking.best(rows, scores[rows], self.k)

"""A metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric
from rag_assay.warehouse.spans import Span


class Found(RetrievalMetric):
    """1 if anything is among the first k, else 0."""

    stem: ClassVar[str] = "acme_found"
    label: ClassVar[str] = "Anything found"
    explanation: ClassVar[str] = "1 if the retriever found anything"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return 1 or 0."""
        return float(bool(hits[: self.k]))


def a_function() -> None:
    """Do nothing: an entry point that names no class."""

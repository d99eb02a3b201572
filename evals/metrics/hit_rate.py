"""Hit rate: whether any of the first k documents is relevant."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, documents_in_order
from rag_assay.warehouse.spans import Span


class HitRate(RetrievalMetric):
    """1 if any of the gold documents is among the first k documents of the ranking, else 0."""

    stem, label = "hit_rate", "Hit rate"
    explanation = "Share of questions with at least one gold document among the first k documents."

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return 0 or 1.

        >>> HitRate(1).value(Gold({"b": 1}), [Span("a", 0, 9), Span("b", 0, 9)])
        0.0
        """
        return float(any(doc in gold.documents for doc in documents_in_order(hits)[: self.k]))

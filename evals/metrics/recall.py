"""Recall: the share of the relevant documents among the first k."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, documents_in_order
from rag_assay.warehouse.spans import Span


class Recall(RetrievalMetric):
    """Gold documents among the first k / all gold documents; 1 as soon as one is there where any suffices."""

    stem, label = "recall", "Recall"
    explanation = "Share of the gold documents among the first k documents (any one where one suffices)."

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return a value in [0, 1].

        >>> Recall(10).value(Gold({"a": 1, "b": 1}), [Span("a", 0, 9)])
        0.5
        """
        found = sum(doc in gold.documents for doc in documents_in_order(hits)[: self.k])
        return found / len(gold.documents) if gold.needs_all else float(found > 0)

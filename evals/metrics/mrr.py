"""Mean reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, documents_in_order
from rag_assay.warehouse.spans import Span


class Mrr(RetrievalMetric):
    """1 / rank of the first gold document among the first k, 0 if there is none (Voorhees, TREC-8, 1999)."""

    stem, label = "mrr", "MRR"
    explanation = "Mean of 1 / rank of the first gold document within the first k; never above 1."

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return a value in [0, 1]; two chunks of one document take one rank.

        >>> Mrr(10).value(Gold({"b": 1}), [Span("a", 0, 9), Span("a", 9, 18), Span("b", 0, 9)])
        0.5
        """
        for rank, doc in enumerate(documents_in_order(hits)[: self.k], 1):
            if doc in gold.documents:
                return 1.0 / rank
        return 0.0

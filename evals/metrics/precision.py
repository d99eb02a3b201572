"""Precision: the share of the first k documents that are relevant."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, documents_in_order
from rag_assay.warehouse.spans import Span


class Precision(RetrievalMetric):
    """Gold documents among the first k / k, as trec_eval's P_k, also where the ranking has fewer documents.

    With fewer than k gold documents it stays below 1 for every ranking.
    """

    stem, label = "precision", "Precision"
    explanation = "Gold documents among the first k documents, divided by k (trec_eval's P)."

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return a value in [0, 1]; whether all of the evidence is needed or any changes nothing.

        >>> Precision(4).value(Gold({"a": 1, "b": 1}), [Span("a", 0, 9), Span("c", 0, 9)])
        0.25
        """
        return sum(doc in gold.documents for doc in documents_in_order(hits)[: self.k]) / self.k

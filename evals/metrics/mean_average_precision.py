"""Mean average precision."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, documents_in_order
from rag_assay.warehouse.spans import Span


class MeanAveragePrecision(RetrievalMetric):
    """Sum of the precision at the rank of each gold document among the first k / all gold documents.

    trec_eval's map_cut (Buckley and Voorhees, SIGIR 2000): the denominator is R, not min(R, k). Where any
    document suffices, the first one found is all that is looked for, and the value is 1 / its rank.
    """

    stem, label = "map", "MAP"
    explanation = (
        "Precision at the rank of each gold document among the first k documents, summed and divided by the "
        "number of gold documents (trec_eval's map_cut)."
    )

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return a value in [0, 1].

        >>> hits = [Span("a", 0, 9), Span("c", 0, 9), Span("b", 0, 9)]
        >>> round(MeanAveragePrecision(10).value(Gold({"a": 1, "b": 1}), hits), 4)  # (1/1 + 2/3) / 2
        0.8333
        """
        ranks = [r for r, doc in enumerate(documents_in_order(hits)[: self.k], 1) if doc in gold.documents]
        if not gold.needs_all:
            return 1 / ranks[0] if ranks else 0.0
        return sum(found / rank for found, rank in enumerate(ranks, 1)) / len(gold.documents)

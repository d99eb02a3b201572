"""Normalised discounted cumulative gain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, documents_in_order
from rag_assay.warehouse.spans import Span


class Ndcg(RetrievalMetric):
    """Sum of grade / log2(rank + 1) over the first k documents, divided by that of the best possible ranking.

    Järvelin and Kekäläinen, TOIS 2002, with the grade itself as gain, as trec_eval's ndcg_cut computes it.
    """

    stem, label = "ndcg", "nDCG"
    explanation = (
        "Sum of grade / log2(rank + 1) over the first k documents, divided by the best possible sum."
    )

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return a value in [0, 1]. Where any one document suffices, only the first one found gains.

        >>> round(Ndcg(10).value(Gold({"b": 1}), [Span("a", 0, 9), Span("b", 0, 9)]), 4)  # 1 / log2(3)
        0.6309
        """
        grades = [gold.documents.get(doc, 0) for doc in documents_in_order(hits)[: self.k]]
        ideal = sorted(gold.documents.values(), reverse=True)[: self.k]
        if not gold.needs_all:
            first = next((i for i, grade in enumerate(grades) if grade), len(grades))
            grades, ideal = grades[: first + 1], ideal[:1]
        return discounted_gain(grades) / discounted_gain(ideal)


def discounted_gain(grades: Iterable[float]) -> float:
    """Return the sum of grade / log2(rank + 1), ranks from 1.

    >>> discounted_gain([3, 2])  # 3 / 1 + 2 / log2(3)
    4.2618595071429155
    """
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades, 1))

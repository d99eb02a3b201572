"""Metrics of the ranked documents: nDCG, MAP, MRR, hit rate, precision, recall."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2
from typing import Any

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, Sees, documents_in_order
from rag_assay.warehouse.spans import Span, uncovered


class EvidenceCoverage(RetrievalMetric):
    """Share of the characters of the evidence quotes that the first k chunks hold together; favours long
    chunks, k of which hold more text.

    Where the question needs all of its evidence: covered characters / all characters, evidence that is not in
    the corpus included. Where any suffices: the best-covered span. With a budget of tokens in place of k
    (`evals.metrics.token_budget`) it does not favour long chunks.
    """

    stem, label = "evidence_coverage", "Evidence coverage"
    sees: Sees = "passages"

    def applies(self, question: dict[str, Any]) -> bool:
        return bool(question["gold"] == "spans")

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return covered_share(gold, hits[: self.k])


def covered_share(gold: Gold, hits: Sequence[Span]) -> float:
    covered = [covered_characters(span, hits) for span in gold.spans]
    lengths = [span.end - span.start for span in gold.spans]
    if gold.needs_all:
        return sum(covered) / (sum(lengths) + gold.missing)
    return max((c / n for c, n in zip(covered, lengths, strict=True)), default=0.0)


def covered_characters(span: Span, hits: Sequence[Span]) -> int:
    return span.end - span.start - sum(gap.end - gap.start for gap in uncovered(span, hits))


class Ndcg(RetrievalMetric):
    """Sum of grade / log2(rank + 1) over the first k documents, divided by the best possible sum.

    Järvelin and Kekäläinen, TOIS 2002, with the grade itself as gain, as trec_eval's ndcg_cut computes it.
    """

    stem, label = "ndcg", "nDCG"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Where any one document suffices, only the first one found gains."""
        grades = [gold.documents.get(doc, 0) for doc in documents_in_order(hits)[: self.k]]
        ideal = sorted(gold.documents.values(), reverse=True)[: self.k]
        if not gold.needs_all:
            first = next((i for i, grade in enumerate(grades) if grade), len(grades))
            grades, ideal = grades[: first + 1], ideal[:1]
        return discounted_gain(grades) / discounted_gain(ideal)


def discounted_gain(grades: Iterable[float]) -> float:
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades, 1))


class MeanAveragePrecision(RetrievalMetric):
    """Precision at the rank of each gold document among the first k documents, summed and divided by the
    number of gold documents (trec_eval's map_cut).

    trec_eval's map_cut (Buckley and Voorhees, SIGIR 2000): the denominator is R, not min(R, k). Where any
    document suffices, the first one found is all that is looked for, and the value is 1 / its rank.
    """

    stem, label = "map", "MAP"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        ranks = [r for r, doc in enumerate(documents_in_order(hits)[: self.k], 1) if doc in gold.documents]
        if not gold.needs_all:
            return 1 / ranks[0] if ranks else 0.0
        return sum(found / rank for found, rank in enumerate(ranks, 1)) / len(gold.documents)


class Mrr(RetrievalMetric):
    """Mean of 1 / rank of the first gold document within the first k; never above 1.

    1 / rank of the first gold document among the first k, 0 if there is none (Voorhees, TREC-8, 1999).
    """

    stem, label = "mrr", "MRR"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Two chunks of one document take one rank."""
        for rank, doc in enumerate(documents_in_order(hits)[: self.k], 1):
            if doc in gold.documents:
                return 1.0 / rank
        return 0.0


class HitRate(RetrievalMetric):
    """Share of questions with at least one gold document among the first k documents."""

    stem, label = "hit_rate", "Hit rate"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return float(any(doc in gold.documents for doc in documents_in_order(hits)[: self.k]))


class Precision(RetrievalMetric):
    """Gold documents among the first k documents, divided by k (trec_eval's P).

    With fewer than k gold documents it stays below 1 for every ranking.
    """

    stem, label = "precision", "Precision"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return sum(doc in gold.documents for doc in documents_in_order(hits)[: self.k]) / self.k


class Recall(RetrievalMetric):
    """Share of the gold documents among the first k documents (any one where one suffices)."""

    stem, label = "recall", "Recall"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        found = sum(doc in gold.documents for doc in documents_in_order(hits)[: self.k])
        return found / len(gold.documents) if gold.needs_all else float(found > 0)

"""Document metrics that count documents with the same title or text as one.

Papers print a press release word for word, and blogs write twice under one title: whichever of them is found,
the question is answered, and three of them on ranks 1 to 3 are one answer. A group of such documents is
relevant if one of them is, with the best of their grades, and takes one rank, that of its best passage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_assay.evals.metrics.contract import Case, Gold, RetrievalMetric
from rag_assay.evals.metrics.hit_rate import HitRate
from rag_assay.evals.metrics.mrr import Mrr
from rag_assay.evals.metrics.ndcg import Ndcg
from rag_assay.evals.metrics.recall import Recall
from rag_assay.warehouse.spans import Span


class ByTitle(RetrievalMetric):
    """A document metric of groups of documents (`evals.metrics.document_facts`)."""

    reads = frozenset({"ranking", "documents"})

    def seen(self, case: Case) -> tuple[Gold, Sequence[Span]]:
        """Return gold and hits with each document named by its group."""

        def group(doc: str) -> str:
            facts = case.documents.get(doc)
            return doc if facts is None else facts.group

        grades: dict[str, int] = {}
        for doc, grade in case.gold.documents.items():
            grades[group(doc)] = max(grade, grades.get(group(doc), 0))
        hits = [hit._replace(doc_id=group(hit.doc_id)) for hit in case.hits]
        return replace(case.gold, documents=grades), hits


class NdcgByTitle(ByTitle, Ndcg):
    """nDCG of groups of documents with the same title or text."""

    stem, label = "ndcg_by_title", "nDCG by title"
    explanation = "nDCG in which documents with the same title or the same text are one."


class MrrByTitle(ByTitle, Mrr):
    """Reciprocal rank of the first gold group of documents with the same title or text."""

    stem, label = "mrr_by_title", "MRR by title"
    explanation = (
        "1 / rank of the first gold document, where documents with the same title or the same text are one."
    )


class RecallByTitle(ByTitle, Recall):
    """Share of the gold groups of documents with the same title or text that are among the first k."""

    stem, label = "recall_by_title", "Recall by title"
    explanation = (
        "Share of the gold documents among the first k, where documents with the same title or text are one."
    )


class HitRateByTitle(ByTitle, HitRate):
    """1 if a document with the title or text of a gold document is among the first k groups, else 0."""

    stem, label = "hit_rate_by_title", "Hit rate by title"
    explanation = (
        "Share of questions with a gold document, or one of the same title or text, among the first k."
    )

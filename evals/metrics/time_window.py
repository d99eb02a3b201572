"""Document metrics that count only what was published within the question's time frame.

For questions that ask for a time ("who won the derby in May 2019?"), of documents that repeat each other from
season to season: a document of another year is a miss, although its words match. Documents out of the frame
keep their ranks, and so push the others down. A document without a known day of publication is not within any
frame; of a partial date, the first day counts, as in filters (docs/grid.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rag_assay.evals.metrics.contract import Case, Gold, RetrievalMetric
from rag_assay.evals.metrics.ranking_metrics import HitRate, Mrr, Ndcg, Recall
from rag_assay.warehouse.spans import Span


class ByTitle(RetrievalMetric):
    """A document metric of groups of documents (`evals.metrics.contract`)."""

    reads = frozenset({"ranking", "documents"})

    def seen(self, case: Case) -> tuple[Gold, Sequence[Span]]:
        def group(doc: str) -> str:
            facts = case.documents.get(doc)
            return doc if facts is None else facts.group

        grades: dict[str, int] = {}
        for doc, grade in case.gold.documents.items():
            grades[group(doc)] = max(grade, grades.get(group(doc), 0))
        hits = [hit._replace(doc_id=group(hit.doc_id)) for hit in case.hits]
        return replace(case.gold, documents=grades), hits


class NdcgByTitle(ByTitle, Ndcg):
    """nDCG in which documents with the same title or the same text are one."""

    stem, label = "ndcg_by_title", "nDCG by title"


class MrrByTitle(ByTitle, Mrr):
    """1 / rank of the first gold document, where documents with the same title or the same text are one."""

    stem, label = "mrr_by_title", "MRR by title"


class RecallByTitle(ByTitle, Recall):
    """Share of the gold documents among the first k, where documents with the same title or text are one."""

    stem, label = "recall_by_title", "Recall by title"


class HitRateByTitle(ByTitle, HitRate):
    """Share of questions with a gold document, or one of the same title or text, among the first k."""

    stem, label = "hit_rate_by_title", "Hit rate by title"


NONE = "evidence within the time frame"
"""The gold of a question none of whose evidence was published in time: nothing can find it."""


class InTime(RetrievalMetric):
    """A document metric whose gold is what was published within the question's time frame, bounds too."""

    reads = frozenset({"ranking", "documents"})

    def applies(self, question: dict[str, Any]) -> bool:
        return super().applies(question) and bool(question["time_from"] or question["time_to"])

    def seen(self, case: Case) -> tuple[Gold, Sequence[Span]]:
        """Return the gold that was published in time, and the hits; evidence that is nowhere stays."""
        first, last = case.question["time_from"] or "", case.question["time_to"] or "9999-12-31"

        def counts(doc: str) -> bool:
            facts = case.documents.get(doc)
            return facts is None or (facts.published_on is not None and first <= facts.published_on <= last)

        in_time = {doc: grade for doc, grade in case.gold.documents.items() if counts(doc)}
        return replace(case.gold, documents=in_time or {NONE: 1}), case.hits


class NdcgInTime(InTime, Ndcg):
    """nDCG in which a gold document counts only if published within the question's time frame."""

    stem, label = "ndcg_in_time", "nDCG in time"


class MrrInTime(InTime, Mrr):
    """1 / rank of the first gold document that was published within the question's time frame."""

    stem, label = "mrr_in_time", "MRR in time"


class RecallInTime(InTime, Recall):
    """Share of the gold documents published in the question's time frame among the first k."""

    stem, label = "recall_in_time", "Recall in time"


class HitRateInTime(InTime, HitRate):
    """Share of questions with a gold document among the first k that was published in their time frame."""

    stem, label = "hit_rate_in_time", "Hit rate in time"

"""Metrics of what an answer cites: is it evidence, and is every sentence cited.

After citation precision and recall of Gao et al. (EMNLP 2023), but without a model: places in documents are
compared, so they say whether an answer can be traced, not whether it follows.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from rag_assay.evals.metrics.contract import Case, Citations, Gold, Metric, Score, Sees, no_answer
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span


class _OfCitations(Metric):
    kind = "answer"
    reads = frozenset({"citations"})
    sees: Sees = "answers"

    def score(self, case: Case) -> Score:
        answer = case.answer
        if answer is None or answer.status is not Status.OK:
            return no_answer(case)
        if answer.citations is None:
            return Score(Status.NOT_RUN, reason="its citations were not kept")
        if answer.citations.sentences == 0:
            return Score(Status.PARSE_FAILED, reason="the answer has no sentence")
        return self.of(answer.citations, case.gold)

    @abstractmethod
    def of(self, citations: Citations, gold: Gold) -> Score:
        """Return the score of an answer that has at least one sentence."""


class CitationPrecision(_OfCitations):
    """Share of the cited passages that hold evidence; a marker that points nowhere counts as one that does
    not. An answer that cites nothing has no value, nor has a refusal.

    A passage counts once, however often it is cited. Where evidence is quoted, a passage holds it that shares
    a character with it; where it is a whole document, any passage of that. A number that points nowhere is a
    passage without evidence.
    """

    stem, title = "citation_precision", "Citation precision"

    def applies(self, question: dict[str, Any]) -> bool:
        return bool(question["gold"] != "none")

    def of(self, citations: Citations, gold: Gold) -> Score:
        named = {one.span for one in citations.cited if one.span is not None}
        nowhere = {one.marker for one in citations.cited if one.span is None}
        if not named and not nowhere:
            return Score(Status.PARSE_FAILED, reason="the answer cites nothing")
        right = sum(_holds_evidence(span, gold) for span in named)
        return Score(Status.OK, right / (len(named) + len(nowhere)))


class CitationRecall(_OfCitations):
    """Share of the answer's sentences that cite at least one passage that was given; 0 for an answer without
    citations. A refusal has no value.
    """

    stem, title = "citation_recall", "Citation recall"

    def applies(self, question: dict[str, Any]) -> bool:
        return bool(question["answerable"])

    def of(self, citations: Citations, gold: Gold) -> Score:
        sentences = {one.sentence for one in citations.cited if one.span is not None} - {None}
        return Score(Status.OK, len(sentences) / citations.sentences)


def _holds_evidence(passage: Span, gold: Gold) -> bool:
    whole = gold.documents.keys() - {span.doc_id for span in gold.spans}
    return passage.doc_id in whole or any(
        span.doc_id == passage.doc_id and passage.start < span.end and span.start < passage.end
        for span in gold.spans
    )

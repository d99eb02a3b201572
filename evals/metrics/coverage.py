"""Evidence coverage: the share of the evidence's characters that the first k passages hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, Sees
from rag_assay.warehouse.spans import Span


class EvidenceCoverage(RetrievalMetric):
    """Share of the evidence's characters that the first k chunks hold together.

    Where the question needs all of its evidence: covered characters / all characters, evidence that is not in
    the corpus included. Where any suffices: the best-covered span. It favours large chunks, k of which hold
    more text; with a budget of tokens in place of k (`evals.metrics.token_budget`) it does not.
    """

    stem, label = "evidence_coverage", "Evidence coverage"
    sees: Sees = "passages"
    explanation = (
        "Share of the characters of the evidence quotes that the first k chunks hold together; favours long "
        "chunks, k of which hold more text."
    )

    def applies(self, question: dict[str, Any]) -> bool:
        return bool(question["gold"] == "spans")

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return a value in [0, 1].

        >>> gold = Gold({"a": 1}, (Span("a", 10, 20),))
        >>> EvidenceCoverage(5).value(gold, [Span("a", 0, 14), Span("a", 12, 16)])  # 10 to 16 of 10 to 20
        0.6
        """
        covered = [covered_characters(span, hits[: self.k]) for span in gold.spans]
        lengths = [span.end - span.start for span in gold.spans]
        if gold.needs_all:
            return sum(covered) / (sum(lengths) + gold.missing)
        return max((c / n for c, n in zip(covered, lengths, strict=True)), default=0.0)


def covered_characters(span: Span, hits: Sequence[Span]) -> int:
    """Count the characters of ``span`` that lie in at least one of the hits.

    >>> covered_characters(Span("a", 0, 10), [Span("a", 0, 4), Span("a", 2, 6), Span("b", 0, 10)])
    6
    """
    parts = sorted(
        (max(span.start, hit.start), min(span.end, hit.end))
        for hit in hits
        if hit.doc_id == span.doc_id and hit.start < span.end and hit.end > span.start
    )
    covered, reached = 0, span.start
    for start, end in parts:
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered

"""Metrics of what a ranking holds within a budget of context, which no chunk size is favoured by.

Five passages of 508 tokens hold more than five of 128, so a metric of the first k passages favours long
chunks. Here every ranking is read up to the same length instead (`evals.metrics.context_curve`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from rag_assay.evals.metrics.context_curve import CHARACTERS_A_TOKEN, context_curve
from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, Sees
from rag_assay.evals.metrics.coverage import EvidenceCoverage
from rag_assay.evals.metrics.recall import Recall
from rag_assay.warehouse.spans import Span


class InTokens(RetrievalMetric):
    """A share of the gold in the first so many tokens of context, written `STEM@Ntokens`.

    A token is four characters, whatever tokenizer a pipeline has. A passage that the budget ends in counts in
    part: that share of its gain that fits. What passages repeat is read, and counted, again. A ranking that
    ends before the budget keeps what it has.
    """

    sees: Sees = "passages"

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)  # no more passages than that can fit
        self.tokens = tokens
        self.name = f"{self.stem}@{tokens}tokens"
        self.title = f"{self.label} in {tokens:,} tokens"

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return a value in [0, 1].

        >>> hits = [Span("b", 0, 400), Span("a", 0, 400)]  # the evidence is in the second 100 tokens
        >>> EvidenceCoverageInTokens(150).value(Gold({"a": 1}, (Span("a", 0, 100),)), hits)
        0.5
        """
        lengths = accumulate((hit.end - hit.start for hit in hits), initial=0)
        read = sum(before < self.tokens * CHARACTERS_A_TOKEN for before in lengths)
        return context_curve(gold, hits[:read]).at(self.tokens)


class EvidenceCoverageInTokens(InTokens, EvidenceCoverage):
    """Share of the evidence's characters that the first N tokens of context hold together."""

    explanation = (
        "Share of the characters of the evidence quotes that the first N tokens of the passages hold "
        "together: every pipeline is read up to the same length, so that no chunk size is favoured."
    )


class RecallInTokens(InTokens, Recall):
    """Share of the gold documents in the first N tokens of context; 1 for any one where one suffices."""

    explanation = (
        "Share of the gold documents (any one where one suffices) in the first N tokens of the passages: "
        "every pipeline is read up to the same length, so that no chunk size is favoured."
    )

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        """Return a value in [0, 1]; of quoted evidence, its documents count as wholes."""
        return super().value(replace(gold, spans=(), missing=0), hits)

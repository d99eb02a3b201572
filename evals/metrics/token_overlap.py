"""Token precision, recall and intersection over union of the first k passages and the evidence.

Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", Chroma, 2024. With t_e what the evidence
holds and t_r what the passages hold:

    precision = |t_e ∩ t_r| / |t_r|    recall = |t_e ∩ t_r| / |t_e|    iou = |t_e ∩ t_r| / |t_e ∪ t_r|

What overlapping passages share counts once in the numerator and each time in |t_r| (so that |t_e ∪ t_r| is
|t_r| + |t_e| - |t_e ∩ t_r|): delivering a text twice is a waste. Lengths are characters, as in the paper's
own code: no tokenizer has a say, and cells with different embedders or models can be compared. Evidence that
is not in the corpus counts into t_e, and passages of any document into t_r.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from rag_assay.evals.metrics.contract import Gold, RetrievalMetric, Sees
from rag_assay.evals.metrics.ranking_metrics import covered_characters
from rag_assay.warehouse.spans import Span, merge_spans


class TokenOverlap(NamedTuple):
    """Lengths in characters.

    shared: of the evidence that passages hold, counted once
    passages: of all passages, what they share counted each time
    lacking: of the evidence that is in no passage; where any piece suffices, of the piece that lacks least
    wanted: of the evidence; where any piece suffices, of the one with the largest share in the passages
    """

    shared: int
    passages: int
    lacking: int
    wanted: int
    of_wanted: int


class TokenMetric(RetrievalMetric):
    """A ratio of lengths of what evidence and passages hold."""

    sees: Sees = "passages"

    def applies(self, question: dict[str, Any]) -> bool:
        return bool(question["gold"] == "spans")

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return self.ratio(overlap(gold, hits[: self.k]))

    @abstractmethod
    def ratio(self, lengths: TokenOverlap) -> float:
        """Return the value for the lengths."""


class TokenPrecision(TokenMetric):
    """Share of the text of the first k passages that is evidence; overlaps count against it. It favours short
    chunks, which hold little beside the evidence.
    """

    stem, label = "token_precision", "Token precision"

    def ratio(self, lengths: TokenOverlap) -> float:
        return lengths.shared / lengths.passages if lengths.passages else 0.0


class TokenRecall(TokenMetric):
    """Share of the text of the evidence that the first k passages hold; each character counts once. It
    favours long chunks, k of which hold more text.

    It is `evidence_coverage`, but that evidence which is quoted twice counts once.
    """

    stem, label = "token_recall", "Token recall"

    def ratio(self, lengths: TokenOverlap) -> float:
        return lengths.of_wanted / lengths.wanted if lengths.wanted else 0.0


class TokenIou(TokenMetric):
    """Text that is evidence and in the first k passages, over text that is either: what is missing and what
    is too much, overlaps included, count against it.
    """

    stem, label = "token_iou", "Token IoU"

    def ratio(self, lengths: TokenOverlap) -> float:
        either = lengths.passages + lengths.lacking
        return lengths.shared / either if either else 0.0


def overlap(gold: Gold, hits: Sequence[Span]) -> TokenOverlap:
    """
    >>> overlap(Gold({"a": 1}, (Span("a", 0, 10), Span("a", 5, 15))), [Span("a", 8, 20), Span("b", 0, 5)])
    TokenOverlap(shared=7, passages=17, lacking=8, wanted=15, of_wanted=7)
    """
    evidence = merge_spans(gold.spans)
    shared = sum(covered_characters(span, hits) for span in evidence)
    passages = sum(hit.end - hit.start for hit in hits)
    if gold.needs_all:
        wanted = sum(span.end - span.start for span in evidence) + gold.missing
        return TokenOverlap(shared, passages, wanted - shared, wanted, shared)
    pieces = [(covered_characters(span, hits), span.end - span.start) for span in gold.spans]
    lacking = min((length - held for held, length in pieces), default=gold.missing)
    of_wanted, wanted = max(pieces, key=lambda one: one[0] / one[1], default=(0, gold.missing))
    return TokenOverlap(shared, passages, lacking, wanted, of_wanted)

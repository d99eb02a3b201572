"""chrF of an answer against the ground truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.context import MetricContext

ORDER = 6  # longest n-gram, in characters
RECALL = 2.0  # how many times as much recall counts as precision: beta of the F measure


def chrf(truth: str, text: str) -> float:
    """Return the chrF2 of one text, from 0 to 1: F of the mean n-gram precision and recall of characters.

    White space counts for nothing; orders that one of the texts is too short for are left out.

    >>> round(chrf("noon", "noons"), 4)  # precision 4/5, 3/4, 2/3, 1/2; recall 1 each: 5PR / (4P + R)
    0.9137
    """
    read, written = "".join(truth.split()), "".join(text.split())
    orders = range(1, min(ORDER, len(read), len(written)) + 1)
    if not orders:
        return 0.0
    precision = recall = 0.0
    for n in orders:
        found, wanted = _ngrams(written, n), _ngrams(read, n)
        right = (found & wanted).total()
        precision += right / found.total() / len(orders)
        recall += right / wanted.total() / len(orders)
    if not precision + recall:
        return 0.0
    return min(1.0, (1 + RECALL**2) * precision * recall / (RECALL**2 * precision + recall))


def _ngrams(text: str, n: int) -> Counter[str]:
    return Counter(text[place : place + n] for place in range(len(text) - n + 1))


class Chrf(AnswerMetric):
    """chrF2 of the answer (Popović, WMT 2015), the same number as sacrebleu's `sentence_chrf` and ragas'.

    It needs no words, so it serves any script, and inflected languages better than BLEU.
    """

    stem, title = "chrf", "chrF"
    explanation = (
        "F2 of the n-grams of up to 6 characters that answer and ground truth share (chrF2, as of sacrebleu)."
    )

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        """Score every answer; equal pairs of texts are scored once."""
        pairs = [case.pair for case in cases]
        found = {pair: chrf(*pair) for pair in set(pairs)}
        return [Score(Status.OK, found[pair]) for pair in pairs]

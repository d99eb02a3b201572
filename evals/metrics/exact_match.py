"""Whether an answer is the ground truth."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.context import MetricContext


class ExactMatch(AnswerMetric):
    """1 where answer and ground truth are the same text, else 0, as ragas' ExactMatch.

    White space and the Unicode form of a letter make no difference; case and punctuation do.
    """

    stem, title = "exact_match", "Exact match"
    explanation = "1 where the answer is the ground truth, sign for sign but for white space, else 0 (ragas)."

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        """Score every answer."""
        return [Score(Status.OK, float(len({_plain(text) for text in case.pair}) == 1)) for case in cases]


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())

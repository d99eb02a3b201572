"""Abstention: whether a generator refuses exactly where the documents hold no answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Score
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.contract import MetricContext


class Abstention(AnswerMetric):
    """Share of questions that were refused exactly when the documents do not answer them."""

    stem, title = "abstention", "Abstention"

    def applies(self, question: dict[str, Any]) -> bool:
        return True

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        return [
            Score(Status.OK, float((case.status is Status.REFUSED) != bool(case.question["answerable"])))
            for case in cases
        ]

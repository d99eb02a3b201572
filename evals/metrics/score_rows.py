"""The scores of one metric as rows: a metric that breaks is data, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag_assay.evals.metrics.context import MetricContext
from rag_assay.evals.metrics.contract import Case, Metric, Score
from rag_assay.warehouse.schemas import Status


def score_rows(
    metric: Metric, cases: Sequence[Case], context: MetricContext
) -> tuple[list[dict[str, Any]], str | None]:
    """Return rows of schemas.SCORES for the questions that a metric applies to, and why it broke, if it did.

    It is given what it says that it reads, and nothing else. A metric that breaks has a status and a reason
    on all of its rows, and is not the end of the other metrics.
    """
    applicable = [case.only(metric.reads) for case in cases if metric.applies(case.question)]
    broke = None
    try:
        scores = metric.measure(applicable, context)
    except Exception as error:
        broke = f"{metric.name}: {type(error).__name__}: {error}"
        scores = [Score(Status.ERROR, reason=broke)] * len(applicable)
    rows = [
        {"question_id": case.question["question_id"], "metric": metric.name, **score._asdict()}
        for case, score in zip(applicable, scores, strict=True)
    ]
    return rows, broke

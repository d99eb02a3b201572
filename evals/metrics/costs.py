"""Cost metrics of a cell: latency and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rag_assay.evals.metrics.contract import Case, EvaluatedAnswer, Metric, Score, no_answer, no_ranking
from rag_assay.warehouse.schemas import RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.evals.metrics.context import MetricContext


class _Cost(Metric):
    kind = "cost"
    sees = "costs"
    higher_is_better = False
    bounds = (0.0, None)

    def applies(self, question: dict[str, Any]) -> bool:
        """Say yes to every question."""
        return True


class RetrievalLatency(_Cost):
    """Wall seconds of the ranking of one question alone, its query embedding included."""

    stem, title, unit = "retrieval_latency", "Retrieval latency", "s"
    reads = frozenset({"retrieval_cost"})
    explanation = (
        "Wall seconds to rank one question, its embedding included, one question at a time. The embedding is "
        "timed on a sample of 50 questions; the others count the median of those."
    )

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        """Return the seconds of the rankings that ended well: a failure has no latency, least of all zero."""
        return [
            Score(Status.OK, case.ranked.seconds) if case.ranked.status is Status.OK else no_ranking(case)
            for case in cases
        ]


class AnswerLatency(_Cost):
    """Wall seconds of the generator for one question, as measured when the answer was computed."""

    stem, title, unit = "answer_latency", "Answer latency", "s"
    reads = frozenset({"answer_cost"})
    explanation = (
        "Wall seconds of the generator for one answer, when it was computed, not when it came from the "
        "cache; sentences of the extractive generator are embedded beforehand."
    )

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        """Return the seconds of the answers that were given."""
        return [_cost(case, "seconds", case.answer and case.answer.seconds) for case in cases]


class Tokens(_Cost):
    """Tokens that the generator read and wrote for one answer."""

    stem, title, unit = "tokens", "Tokens", "tokens"
    reads = frozenset({"answer_cost"})
    explanation = "Tokens read plus tokens written by the generator for one answer."

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        """Return prompt plus completion tokens."""
        return [
            _cost(case, "prompt_tokens and completion_tokens", case.answer and _tokens(case.answer))
            for case in cases
        ]


def _tokens(answer: EvaluatedAnswer) -> int | None:
    if answer.prompt_tokens is None or answer.completion_tokens is None:
        return None
    return answer.prompt_tokens + answer.completion_tokens


def _cost(case: Case, what: str, value: float | None) -> Score:
    if case.answer is None or case.answer.status in RETRYABLE:
        return no_answer(case)
    if value is not None:
        return Score(Status.OK, float(value))
    if case.answer.status is not Status.OK:
        return no_answer(case)  # it was not asked at all
    return Score(Status.NOT_RUN, reason=f"the generator did not say its {what}")

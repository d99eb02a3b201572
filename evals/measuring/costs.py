"""What a cell costs: seconds and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evals.measuring.contract import Case, Metric, Score, no_answer
from warehouse.schemas import RETRYABLE, Status


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

    name, title, unit = "retrieval_latency", "Retrieval latency", "s"
    explanation = (
        "Wall seconds to rank one question, its embedding included, one question at a time. The embedding is "
        "timed on a sample of 50 questions; the others count the median of those."
    )

    def measure(self, cases: Sequence[Case]) -> list[Score]:
        """Return the seconds of the rankings that ended well: a failure has no latency, least of all zero."""
        return [
            Score(Status.OK, case.ranked["seconds"])
            if case.ranked["status"] == Status.OK
            else Score(Status(case.ranked["status"]), reason=case.ranked["reason"])
            for case in cases
        ]


class AnswerLatency(_Cost):
    """Wall seconds of the generator for one question, as measured when the answer was computed."""

    name, title, unit = "answer_latency", "Answer latency", "s"
    explanation = (
        "Wall seconds of the generator for one answer, when it was computed, not when it came from the "
        "cache; sentences of the extractive generator are embedded beforehand."
    )

    def measure(self, cases: Sequence[Case]) -> list[Score]:
        """Return the seconds of the answers that were given."""
        return [_of_answer(case, "seconds") for case in cases]


class Tokens(_Cost):
    """Tokens that the generator read and wrote for one answer."""

    name, title, unit = "tokens", "Tokens", "tokens"
    explanation = "Tokens read plus tokens written by the generator for one answer."

    def measure(self, cases: Sequence[Case]) -> list[Score]:
        """Return prompt plus completion tokens."""
        return [_of_answer(case, "prompt_tokens", "completion_tokens") for case in cases]


def _of_answer(case: Case, *columns: str) -> Score:
    answer = case.answer
    if answer is None or answer["status"] in RETRYABLE:
        return no_answer(case)
    values = [answer[column] for column in columns]
    if any(value is None for value in values):
        if answer["status"] != Status.OK:
            return no_answer(case)  # it was not asked at all
        return Score(Status.NOT_RUN, reason=f"the generator did not say its {' and '.join(columns)}")
    return Score(Status.OK, float(sum(values)))

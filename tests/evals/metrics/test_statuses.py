"""A failure has a status and a reason and no value, in every metric: never a 0, never a gap."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.abstention import Abstention
from rag_assay.evals.metrics.contract import AnsweredCase, AnswerMetric, Gold, Metric, MetricContext, Score
from rag_assay.evals.metrics.costs import AnswerLatency, RetrievalLatency, Tokens
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span
from tests.fakes.cases import CONTEXT, answer, case, question, ranked

FAILURES = [status for status in Status if status not in {Status.OK, Status.REFUSED}]


class Length(AnswerMetric):
    """The length of the answer: an answer metric without a model."""

    name, title, explanation = "length", "Length", ""

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        return [Score(Status.OK, float(len(case.text))) for case in cases]


@pytest.mark.parametrize("name", ["ndcg@10", "mrr@10", "recall@5", "hit_rate@5", "evidence_coverage@5"])
@pytest.mark.parametrize("status", [Status.ERROR, Status.TIMEOUT])
def test_a_failed_ranking_has_no_retrieval_value(name: str, status: Status) -> None:
    good, bad = get_metric(name).measure([case(), case(ranked=ranked(status), hits=())], CONTEXT)
    assert good == Score(Status.OK, 1.0)
    assert bad == Score(status, None, "it broke")


@pytest.mark.parametrize("status", FAILURES)
def test_a_failed_answer_keeps_its_status_and_reason(status: Status) -> None:
    scores = Length().measure(
        [case(), case(answer=answer(status)), case(answer=answer(text="12345"))], CONTEXT
    )
    assert scores == [
        Score(Status.OK, 8.0),
        Score(status, None, f"because of {status}"),
        Score(Status.OK, 5.0),
    ]


def test_an_error_text_is_not_judged_as_an_answer() -> None:
    (score,) = Length().measure(
        [case(answer=answer(Status.ERROR)._replace(text="Error 500: overloaded"))], CONTEXT
    )
    assert score.status is Status.ERROR
    assert score.value is None


def test_an_empty_or_absent_answer_has_no_value() -> None:
    empty, absent = Length().measure([case(answer=answer(text="")), case(answer=None)], CONTEXT)
    assert (empty.status, empty.value) == (Status.PARSE_FAILED, None)
    assert (absent.status, absent.value) == (Status.NOT_RUN, None)
    assert empty.reason
    assert absent.reason


def test_a_refusal_is_measured_as_an_answer() -> None:
    (score,) = Length().measure([case(answer=answer(Status.REFUSED, "The documents do not say."))], CONTEXT)
    assert score == Score(Status.OK, 25.0)


@pytest.mark.parametrize("status", FAILURES)
@pytest.mark.parametrize("metric", [AnswerLatency(), Tokens()], ids=lambda metric: metric.name)
def test_a_failure_costs_nothing_that_could_be_averaged(
    metric: AnswerLatency | Tokens, status: Status
) -> None:
    (score,) = metric.measure([case(answer=answer(status))], CONTEXT)
    assert score == Score(status, None, f"because of {status}")


def test_costs_by_hand() -> None:
    assert AnswerLatency().measure([case()], CONTEXT) == [Score(Status.OK, 1.5)]
    assert Tokens().measure([case()], CONTEXT) == [Score(Status.OK, 120.0)]
    assert RetrievalLatency().measure([case(), case(ranked=ranked(Status.ERROR))], CONTEXT) == [
        Score(Status.OK, 0.25),
        Score(Status.ERROR, None, "it broke"),
    ]


def test_a_generator_that_does_not_say_its_tokens_has_no_tokens() -> None:
    (score,) = Tokens().measure([case(answer=answer(completion_tokens=None))], CONTEXT)
    assert (score.status, score.value) == (Status.NOT_RUN, None)
    assert "completion_tokens" in str(score.reason)


@pytest.mark.parametrize(
    ("answerable", "status", "value"),
    [
        (True, Status.OK, 1.0),
        (True, Status.REFUSED, 0.0),
        (False, Status.OK, 0.0),
        (False, Status.REFUSED, 1.0),
        (False, Status.TIMEOUT, None),
        (True, Status.NO_CONTEXT, None),
    ],
)
def test_abstention(answerable: bool, status: Status, value: float | None) -> None:
    asked = case(question=question(answerable=answerable, ground_truth=None), answer=answer(status, "text"))
    assert Abstention().applies(asked.question)
    (score,) = Abstention().measure([asked], CONTEXT)
    assert score.value == value
    assert (score.status is Status.OK) == (value is not None)


def test_what_a_metric_applies_to_depends_on_the_question_alone() -> None:
    nothing = question(gold="none", ground_truth=None)
    documents = question(gold="documents")
    applies = {
        name: [get_metric(name).applies(q) for q in (question(), documents, nothing)]
        for name in ("ndcg@10", "evidence_coverage@5", "rouge_l", "abstention", "tokens")
    }
    assert applies == {
        "ndcg@10": [True, True, False],
        "evidence_coverage@5": [True, False, False],
        "rouge_l": [True, True, False],
        "abstention": [True, True, True],
        "tokens": [True, True, True],
    }


def test_an_empty_ranking_is_a_zero_not_a_gap() -> None:
    (score,) = get_metric("ndcg@10").measure(
        [case(hits=(), gold=Gold({"a": 1}, (Span("a", 0, 5),)))], CONTEXT
    )
    assert score == Score(Status.OK, 0.0)


def test_a_metric_that_cannot_measure_is_refused_before_anything_is_paid_for() -> None:
    class Idle(Metric):
        """Neither measures cases nor scores one."""

        stem, title, kind = "idle", "Idle", "retrieval"

        def applies(self, question: dict[str, object]) -> bool:
            return True

    with pytest.raises(TypeError, match="the metric Idle has neither `measure` nor `score`"):
        Idle()

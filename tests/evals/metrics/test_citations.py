"""The arithmetic of what is cited, on gold of every kind."""

from __future__ import annotations

import pytest

from rag_assay.evals.metrics.citations import CitationPrecision, CitationRecall
from rag_assay.evals.metrics.contract import Citations, CitedSpan, Gold, Score
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span
from tests.fakes.cases import CONTEXT, answer, case, question

HERE, BESIDE, THERE = Span("a", 5, 30), Span("a", 10, 30), Span("b", 0, 9)
SPANS = Gold({"a": 1}, (Span("a", 0, 10),))
DOCUMENTS = Gold({"a": 2, "b": 1})
MIXED = Gold({"a": 1, "b": 1}, (Span("a", 0, 10),))
LOST = Gold({"missing evidence 0: x": 1}, (), 40)


def cites(*spans: Span | None) -> tuple[CitedSpan, ...]:
    return tuple(CitedSpan(number, 0, span) for number, span in enumerate(spans, start=1))


@pytest.mark.parametrize(
    ("gold", "spans", "wanted"),
    [
        (SPANS, [HERE], 1.0),
        (SPANS, [HERE, BESIDE], 0.5),
        (SPANS, [BESIDE, THERE, None], 0.0),
        (DOCUMENTS, [HERE, BESIDE, THERE], 1.0),
        (DOCUMENTS, [HERE, Span("c", 0, 5)], 0.5),
        (MIXED, [HERE, BESIDE, THERE], 2 / 3),
        (LOST, [HERE], 0.0),
        (SPANS, [None], 0.0),
    ],
)
def test_precision(gold: Gold, spans: list[Span | None], wanted: float) -> None:
    (score,) = CitationPrecision().measure(
        [case(gold=gold, answer=answer(citations=Citations(1, cites(*spans))))], CONTEXT
    )
    assert score == Score(Status.OK, pytest.approx(wanted))


def test_nothing_cited_has_no_precision_and_no_recall() -> None:
    one = case(answer=answer(citations=Citations(3)))
    assert CitationPrecision().measure([one], CONTEXT) == [
        Score(Status.PARSE_FAILED, None, "the answer cites nothing")
    ]
    assert CitationRecall().measure([one], CONTEXT) == [Score(Status.OK, 0.0)]


@pytest.mark.parametrize("metric", [CitationPrecision(), CitationRecall()])
def test_a_refusal_has_no_value(metric: CitationPrecision | CitationRecall) -> None:
    refused = answer(Status.REFUSED, "The documents do not say [1].", citations=Citations(1, cites(HERE)))
    (score,) = metric.measure([case(answer=refused)], CONTEXT)
    assert (score.status, score.value) == (Status.REFUSED, None)


def test_what_they_apply_to_hangs_on_the_question_alone() -> None:
    unanswerable = question(answerable=False, gold="none")
    without_evidence = question(gold="none")
    assert not CitationPrecision().applies(unanswerable)
    assert not CitationRecall().applies(unanswerable)
    assert not CitationPrecision().applies(without_evidence)
    assert CitationRecall().applies(without_evidence)

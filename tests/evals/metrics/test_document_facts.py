"""Metrics that know when documents were published, and which say the same."""

from __future__ import annotations

from math import log2
from typing import Any

import pytest

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.contract import MOST, DocumentFacts, DocumentRow, Gold, Score, document_facts
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span
from tests.fakes.cases import CONTEXT, case, question


def score(name: str, gold: Gold, docs: str, documents: dict[str, DocumentFacts], **frame: Any) -> Score:
    hits = tuple(Span(doc, 0, 9) for doc in docs)
    one = case(question=question(**frame), gold=gold, hits=hits, documents=documents)
    metric = get_metric(name)
    assert metric.applies(one.question)
    return metric.measure([one.only(metric.reads)], CONTEXT)[0]


def dated(**days: str | None) -> dict[str, DocumentFacts]:
    return {doc: DocumentFacts(day, doc) for doc, day in days.items()}


DERBY = dated(a="2018-05-01", b="2019-05-01", c="2020-05-01", u=None, x="2019-06-01")
IN_2019 = {"time_from": "2019-01-01", "time_to": "2019-12-31"}


def test_gold_of_another_year_is_a_miss_that_keeps_its_rank() -> None:
    gold = Gold({"a": 1, "b": 2, "c": 1})
    assert score("mrr_in_time@10", gold, "acb", DERBY, **IN_2019).value == pytest.approx(1 / 3)
    assert score("hit_rate_in_time@2", gold, "acb", DERBY, **IN_2019).value == 0
    assert score("recall_in_time@10", gold, "acb", DERBY, **IN_2019).value == 1
    assert score("ndcg_in_time@10", gold, "acb", DERBY, **IN_2019).value == pytest.approx(1 / log2(4))
    assert score("mrr@10", gold, "acb", DERBY, **IN_2019).value == 1


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ({"time_from": "2019-05-01"}, 1 / 2),  # the bound is within the frame
        ({"time_from": "2019-05-02"}, 1 / 3),
        ({"time_to": "2018-05-01"}, 1),
        ({"time_to": "2018-04-30"}, 0),
        ({"time_from": "2020-05-01", "time_to": "2020-05-01"}, 1 / 3),
    ],
)
def test_either_bound_may_be_open(frame: dict[str, str], expected: float) -> None:
    gold = Gold({"a": 1, "b": 1, "c": 1}, needs_all=False)
    assert score("mrr_in_time@10", gold, "abc", DERBY, **frame).value == pytest.approx(expected)


def test_a_document_without_a_day_is_within_no_frame() -> None:
    assert score("recall_in_time@10", Gold({"u": 1, "b": 1}), "u", DERBY, **IN_2019).value == 0
    assert score("recall_in_time@10", Gold({"u": 1}), "u", DERBY, **IN_2019) == Score(Status.OK, 0.0)


def test_evidence_that_is_not_in_the_corpus_counts_in_every_denominator() -> None:
    gold = Gold({"b": 1, "missing evidence 1: u": 1})
    assert score("recall_in_time@10", gold, "b", DERBY, **IN_2019).value == 0.5


@pytest.mark.parametrize("stem", ["ndcg_in_time", "mrr_in_time", "recall_in_time", "hit_rate_in_time"])
def test_questions_without_a_frame_are_not_measured(stem: str) -> None:
    assert not get_metric(f"{stem}@5").applies(question())
    assert not get_metric(f"{stem}@5").applies(question(gold="none", **IN_2019))


def grouped(**groups: str) -> dict[str, DocumentFacts]:
    return {doc: DocumentFacts(None, group) for doc, group in groups.items()}


def test_documents_of_one_title_are_one() -> None:
    documents = grouped(a="a", b="a", c="c", x="x", y="x")
    gold = Gold({"a": 1, "c": 3})
    assert score("mrr_by_title@10", gold, "xyb", documents).value == pytest.approx(1 / 2)
    assert score("hit_rate_by_title@2", gold, "xyb", documents).value == 1
    assert score("recall_by_title@10", gold, "ab", documents).value == 1 / 2
    best = 3 + 1 / log2(3)
    assert score("ndcg_by_title@10", gold, "bac", documents).value == pytest.approx((1 + 3 / log2(3)) / best)


def test_a_group_has_the_best_grade_of_its_documents() -> None:
    documents = grouped(a="a", b="a", c="c")
    gold = Gold({"a": 1, "b": 3, "c": 2})
    assert score("ndcg_by_title@10", gold, "ac", documents).value == 1
    assert score("recall_by_title@1", gold, "a", documents).value == 1 / 2


def rows(*documents: tuple[str, str | None, str]) -> list[DocumentRow]:
    return [DocumentRow(doc, None, title, text) for doc, title, text in documents]


def groups(*documents: tuple[str, str | None, str]) -> dict[str, str]:
    return {doc: facts.group for doc, facts in document_facts(rows(*documents)).items()}


def test_titles_and_texts_are_compared_by_their_words() -> None:
    found = groups(("b", "Derby:\n 1:0", "x"), ("a", "derby: 1:0 ", "y"), ("c", "Derby: 1:1", "  X\n"))
    assert found == {"a": "a", "b": "a", "c": "a"}


def test_groups_do_not_hang_on_the_order_of_documents() -> None:
    documents = [("d", "t", "1"), ("b", "u", "2"), ("c", "t", "2"), ("a", "v", "3"), ("e", "v", "1")]
    assert groups(*documents) == groups(*reversed(documents)) == dict.fromkeys("abcde", "a")


def test_no_title_and_one_that_many_have_group_nothing() -> None:
    assert groups(("a", None, ""), ("b", None, ""), ("c", " ", "")) == {"a": "a", "b": "b", "c": "c"}
    most = [(f"d{number:02}", "News ticker", str(number)) for number in range(MOST)]
    assert set(groups(*most).values()) == {"d00"}
    assert len(set(groups(*most, ("more", "News ticker", "more")).values())) == MOST + 1

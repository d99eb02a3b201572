"""Values that a reader can check by hand, and trec_eval's own on random rankings."""

from __future__ import annotations

import random
from math import log2

import pytest
import pytrec_eval

from evals.measuring import get_metric
from evals.measuring.contract import Gold, RetrievalMetric
from evals.measuring.coverage import EvidenceCoverage, covered_characters
from evals.measuring.hit_rate import HitRate
from evals.measuring.mrr import Mrr
from evals.measuring.ndcg import Ndcg
from evals.measuring.recall import Recall
from warehouse.errors import InputError
from warehouse.spans import Span


def ranking(*docs: str) -> list[Span]:
    return [Span(doc, 0, 100) for doc in docs]


def test_ndcg_by_hand() -> None:
    gold = Gold({"a": 3, "b": 2, "c": 1})
    best = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)
    assert Ndcg(10).value(gold, ranking("x", "b", "a")) == pytest.approx((2 / log2(3) + 3 / log2(4)) / best)
    assert Ndcg(2).value(gold, ranking("a", "b", "c")) == 1
    assert Ndcg(1).value(gold, ranking("b", "a")) == pytest.approx(2 / 3)


def test_ndcg_where_any_document_suffices_gains_once() -> None:
    gold = Gold({"a": 1, "b": 1}, needs_all=False)
    assert Ndcg(10).value(gold, ranking("a")) == 1
    assert Ndcg(10).value(gold, ranking("x", "b", "a")) == pytest.approx(1 / log2(3))


def test_mrr_by_hand() -> None:
    gold = Gold({"a": 1, "b": 1})
    assert Mrr(10).value(gold, ranking("a", "b")) == 1
    assert Mrr(10).value(gold, ranking("x", "y", "b", "a")) == pytest.approx(1 / 3)
    assert Mrr(2).value(gold, ranking("x", "y", "b")) == 0


def test_chunks_of_one_document_take_one_rank() -> None:
    hits = [Span("x", 0, 9), Span("x", 9, 20), Span("x", 20, 30), Span("a", 0, 9)]
    gold = Gold({"a": 1})
    assert Mrr(10).value(gold, hits) == 0.5
    assert HitRate(2).value(gold, hits) == 1
    assert Recall(1).value(gold, hits) == 0


def test_recall_by_hand() -> None:
    gold = Gold({"a": 1, "b": 2, "c": 1, "missing evidence 3: u": 1})
    assert Recall(10).value(gold, ranking("a", "x", "c")) == 0.5
    assert Recall(1).value(gold, ranking("a", "c")) == 0.25
    assert Recall(10).value(Gold({"a": 1, "b": 1}, needs_all=False), ranking("x", "b")) == 1


def test_coverage_by_hand() -> None:
    gold = Gold({"a": 1, "b": 1}, (Span("a", 100, 200), Span("b", 0, 50)), missing=50)
    hits = [Span("a", 0, 140), Span("a", 120, 160), Span("b", 40, 90), Span("a", 190, 300)]
    assert EvidenceCoverage(10).value(gold, hits) == pytest.approx((60 + 10 + 10) / (100 + 50 + 50))
    assert EvidenceCoverage(2).value(gold, hits) == pytest.approx(60 / 200)
    assert EvidenceCoverage(10).value(gold, [Span("a", 0, 999), Span("b", 0, 50)]) == 0.75


def test_coverage_where_any_span_suffices_takes_the_best() -> None:
    spans = (Span("a", 0, 100), Span("b", 0, 10))
    hits = [Span("a", 0, 30), Span("b", 2, 10)]
    assert EvidenceCoverage(5).value(Gold({"a": 1, "b": 1}, spans, 0, needs_all=False), hits) == 0.8
    assert EvidenceCoverage(5).value(Gold({"x": 1}, (), 40, needs_all=False), hits) == 0


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ([], 0),
        ([Span("a", 0, 10)], 0),  # ends where the span begins
        ([Span("a", 20, 30)], 0),  # begins where it ends
        ([Span("a", 0, 100)], 10),
        ([Span("a", 12, 14), Span("a", 12, 14)], 2),
        ([Span("a", 8, 13), Span("a", 12, 15), Span("a", 18, 40)], 7),
        ([Span("a", 18, 40), Span("a", 8, 13)], 5),
        ([Span("a", 10, 20), Span("a", 11, 12)], 10),
        ([Span("b", 10, 20)], 0),
    ],
)
def test_covered_characters(hits: list[Span], expected: int) -> None:
    assert covered_characters(Span("a", 10, 20), hits) == expected


@pytest.mark.parametrize("seed", range(25))
def test_trec_eval_computes_the_same(seed: int) -> None:
    chance = random.Random(seed)
    documents = [f"d{number:02}" for number in range(40)]
    qrels = {
        f"q{number}": {doc: chance.choice([0, 1, 1, 2, 3]) for doc in chance.sample(documents, 12)}
        for number in range(8)
    }
    qrels = {query: {"d00": 1, **grades} for query, grades in qrels.items()}
    runs = {query: chance.sample(documents, chance.randint(1, 40)) for query in qrels}
    scored = {query: {doc: float(-rank) for rank, doc in enumerate(docs)} for query, docs in runs.items()}
    measures = {"ndcg_cut.5,10", "recall.5,10", "recip_rank", "success.5,10"}
    reference = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(scored)
    names = {
        "ndcg@5": "ndcg_cut_5",
        "ndcg@10": "ndcg_cut_10",
        "recall@5": "recall_5",
        "recall@10": "recall_10",
        "mrr@9999": "recip_rank",
        "hit_rate@5": "success_5",
        "hit_rate@10": "success_10",
    }
    for query, grades in qrels.items():
        gold = Gold({doc: grade for doc, grade in grades.items() if grade})
        for ours, theirs in names.items():
            metric = get_metric(ours)
            assert isinstance(metric, RetrievalMetric)
            value = metric.value(gold, ranking(*runs[query]))
            assert value == pytest.approx(reference[query][theirs], abs=1e-9), (query, ours)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ndgc@10", "did you mean ndcg@10?"),
        ("ndcg", "as in ndcg@10"),
        ("recall@0", "a depth from 1 to 9999"),
        ("recall@99999", "a depth from 1 to 9999"),
        ("rouge", "did you mean rouge_l?"),
        ("bleu", "known are hit_rate@K"),
    ],
)
def test_an_unknown_metric_is_answered_with_what_would_be_right(name: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        get_metric(name)
    assert told in str(caught.value)
    assert name in str(caught.value)

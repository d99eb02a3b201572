"""Values that a reader can check by hand, and trec_eval's own on random rankings."""

from __future__ import annotations

import random
from math import log2

import pytest
import pytrec_eval

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.contract import Gold, RetrievalMetric
from rag_assay.evals.metrics.ranking_metrics import (
    EvidenceCoverage,
    HitRate,
    MeanAveragePrecision,
    Mrr,
    Ndcg,
    Precision,
    Recall,
    covered_characters,
)
from rag_assay.evals.metrics.token_overlap import TokenIou, TokenPrecision, TokenRecall
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.spans import Span


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


def test_average_precision_by_hand() -> None:
    gold = Gold({"a": 3, "b": 1, "c": 1, "missing evidence 3: u": 1})
    mean = get_metric("map@10")
    assert isinstance(mean, RetrievalMetric)
    assert mean.value(gold, ranking("a", "x", "b")) == pytest.approx((1 / 1 + 2 / 3) / 4)
    assert MeanAveragePrecision(2).value(gold, ranking("a", "x", "b")) == pytest.approx(1 / 4)
    any_one = Gold({"a": 1, "b": 1}, needs_all=False)
    assert mean.value(any_one, ranking("x", "b", "a")) == pytest.approx(1 / 2)


def test_precision_by_hand() -> None:
    gold = Gold({"a": 3, "b": 1, "missing evidence 2: u": 1})
    hits = [Span("a", 0, 9), Span("a", 9, 20), *ranking("x", "b")]
    assert Precision(3).value(gold, hits) == pytest.approx(2 / 3)  # documents a, x and b
    assert Precision(10).value(gold, hits) == pytest.approx(2 / 10)
    any_one = Gold({"a": 1, "b": 1}, needs_all=False)
    assert Precision(2).value(any_one, ranking("a", "b")) == 1


def test_token_metrics_by_hand() -> None:
    gold = Gold({"a": 1, "b": 1}, (Span("a", 100, 200), Span("b", 0, 50)), missing=50)
    hits = [Span("a", 60, 140), Span("a", 120, 160), Span("c", 0, 30), Span("b", 40, 90)]
    shared, passages, wanted = 60 + 10, 80 + 40 + 30 + 50, 100 + 50 + 50
    assert TokenPrecision(10).value(gold, hits) == pytest.approx(shared / passages)
    assert TokenRecall(10).value(gold, hits) == pytest.approx(shared / wanted)
    assert TokenIou(10).value(gold, hits) == pytest.approx(shared / (passages + wanted - shared))
    assert TokenPrecision(1).value(gold, hits) == pytest.approx(40 / 80)
    assert TokenIou(1).value(gold, hits) == pytest.approx(40 / (80 + 200 - 40))


def test_token_metrics_where_any_span_suffices() -> None:
    gold = Gold({"a": 1, "b": 1}, (Span("a", 0, 100), Span("b", 0, 10)), 40, needs_all=False)
    hits = [Span("a", 0, 30), Span("b", 2, 22)]
    assert TokenRecall(5).value(gold, hits) == pytest.approx(8 / 10)
    assert TokenPrecision(5).value(gold, hits) == pytest.approx(38 / 50)
    assert TokenIou(5).value(gold, hits) == pytest.approx(38 / (50 + 2))
    nowhere = Gold({"x": 1}, (), 40, needs_all=False)
    assert [metric(5).value(nowhere, hits) for metric in (TokenPrecision, TokenRecall, TokenIou)] == [0, 0, 0]


@pytest.mark.parametrize("seed", range(25))
def test_token_metrics_are_those_of_sets_of_characters(seed: int) -> None:
    chance = random.Random(seed)

    def some(number: int) -> list[Span]:
        starts = [chance.randrange(80) for _ in range(number)]
        return [Span(chance.choice("ab"), start, start + chance.randint(1, 40)) for start in starts]

    def held(spans: list[Span]) -> set[tuple[str, int]]:
        return {(span.doc_id, at) for span in spans for at in range(span.start, span.end)}

    evidence, hits = some(chance.randint(1, 4)), some(chance.randint(1, 6))
    gold, k = Gold({"a": 1}, tuple(evidence)), chance.randint(1, 6)
    wanted, found = held(evidence), held(hits[:k])
    retrieved = sum(hit.end - hit.start for hit in hits[:k])
    both = len(wanted & found)
    assert TokenPrecision(k).value(gold, hits) == pytest.approx(both / retrieved, abs=1e-12)
    assert TokenRecall(k).value(gold, hits) == pytest.approx(both / len(wanted), abs=1e-12)
    assert TokenIou(k).value(gold, hits) == pytest.approx(both / (retrieved + len(wanted) - both), abs=1e-12)


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
    measures |= {"map", "map_cut.5,10", "P.5,10"}
    reference = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(scored)
    names = {
        "ndcg@5": "ndcg_cut_5",
        "ndcg@10": "ndcg_cut_10",
        "recall@5": "recall_5",
        "recall@10": "recall_10",
        "mrr@9999": "recip_rank",
        "hit_rate@5": "success_5",
        "hit_rate@10": "success_10",
        "map@5": "map_cut_5",
        "map@10": "map_cut_10",
        "map@9999": "map",
        "precision@5": "P_5",
        "precision@10": "P_10",
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
        ("recall@0tokens", "a budget of 1 to 9999999 tokens of context, as in recall@2000tokens"),
        ("recall@2000token", "as in recall@2000tokens"),
        ("recall@20000000tokens", "a budget of 1 to 9999999 tokens"),
        ("ndcg@2000tokens", "evidence_coverage and recall"),
        ("rouge_l@2000tokens", "did you mean rouge_l?"),
        ("perplexity@2000tokens", "evidence_coverage@Ntokens, recall@Ntokens"),
        ("perplexity", "known are hit_rate@K"),
    ],
)
def test_an_unknown_metric_is_answered_with_what_would_be_right(name: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        get_metric(name)
    assert told in str(caught.value)
    assert name in str(caught.value)

"""What rankings hold within a budget of context: by hand, and the same as in the report's curves."""

from __future__ import annotations

import random

import pytest

from rag_assay.evals.metrics import get_metric
from rag_assay.evals.metrics.contract import Gold, RetrievalMetric
from rag_assay.evals.metrics.token_budget import context_curve
from rag_assay.warehouse.spans import Span


def value(name: str, gold: Gold, hits: list[Span]) -> float:
    metric = get_metric(name)
    assert isinstance(metric, RetrievalMetric)
    return metric.value(gold, hits)


EVIDENCE = Gold({"a": 1, "b": 2}, (Span("a", 0, 100), Span("b", 0, 300)))
HITS = [Span("x", 0, 400), Span("a", 50, 450), Span("b", 100, 500)]  # 100 tokens each


@pytest.mark.parametrize(
    ("tokens", "covered", "found"),
    [
        (1, 0, 0),
        (100, 0, 0),
        (101, 0.125 / 100, 0.5 / 100),  # a hundredth of the second passage
        (150, 0.0625, 0.25),
        (200, 0.125, 0.5),
        (250, 0.375, 0.75),
        (300, 0.625, 1),
        (9_999_999, 0.625, 1),
    ],
)
def test_by_hand(tokens: int, covered: float, found: float) -> None:
    assert value(f"evidence_coverage@{tokens}tokens", EVIDENCE, HITS) == pytest.approx(covered)
    assert value(f"recall@{tokens}tokens", EVIDENCE, HITS) == pytest.approx(found)


def test_any_piece_suffices_and_missing_evidence_counts() -> None:
    any_piece = Gold(EVIDENCE.documents, EVIDENCE.spans, needs_all=False)
    assert value("evidence_coverage@200tokens", any_piece, HITS) == 0.5
    assert value("recall@200tokens", any_piece, HITS) == 1
    missing = Gold({**EVIDENCE.documents, "nowhere": 1}, EVIDENCE.spans, 400)
    assert value("evidence_coverage@300tokens", missing, HITS) == pytest.approx(0.3125)
    assert value("recall@300tokens", missing, HITS) == pytest.approx(2 / 3)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_curve_of_the_report(seed: int) -> None:
    chance = random.Random(seed)

    def some(number: int) -> list[Span]:
        starts = [chance.randrange(800) for _ in range(number)]
        return [Span(chance.choice("abc"), start, start + chance.randint(1, 900)) for start in starts]

    evidence, hits = some(3), some(12)
    documents = dict.fromkeys([span.doc_id for span in evidence], 1)
    gold = Gold(documents, tuple(evidence), chance.choice([0, 30]), chance.choice([True, False]))
    whole = Gold(documents, needs_all=gold.needs_all)
    for tokens in (1, 17, 200, 500, 1_000, 2_000, 4_000):
        expected = context_curve(gold, hits).at(tokens)
        assert value(f"evidence_coverage@{tokens}tokens", gold, hits) == expected
        assert value(f"recall@{tokens}tokens", whole, hits) == context_curve(whole, hits).at(tokens)
        assert value(f"recall@{tokens}tokens", gold, hits) == context_curve(whole, hits).at(tokens)


def test_long_chunks_have_no_advantage_but_at_a_fixed_number_of_passages() -> None:
    gold = Gold({"a": 1}, (Span("a", 0, 8_000),))
    short = [Span("a", start, start + 512) for start in range(0, 8_192, 512)]
    long = [Span("a", start, start + 2_048) for start in range(0, 8_192, 2_048)]
    assert value("evidence_coverage@3", gold, short) < value("evidence_coverage@3", gold, long)
    fair = [value("evidence_coverage@1500tokens", gold, hits) for hits in (short, long)]
    assert fair[0] == pytest.approx(fair[1], abs=0.01)


def test_what_it_is_called_and_asked_of() -> None:
    metric = get_metric("evidence_coverage@2000tokens")
    assert metric.name == "evidence_coverage@2000tokens"
    assert metric.title == "Evidence coverage in 2,000 tokens"
    assert (metric.bounds, metric.sees, metric.kind) == ((0.0, 1.0), "passages", "retrieval")
    assert metric.applies({"gold": "spans"})
    assert not metric.applies({"gold": "documents"})
    recall = get_metric("recall@2000tokens")
    assert recall.title == "Recall in 2,000 tokens"
    assert recall.applies({"gold": "documents"})
    assert not recall.applies({"gold": "none"})

"""How much of the gold a reader has after so much context."""

from __future__ import annotations

import random

import pytest

from rag_assay.evals.metrics.contract import Gold
from rag_assay.evals.metrics.ranking_metrics import EvidenceCoverage, Recall
from rag_assay.evals.metrics.token_budget import ContextCurve, context_curve
from rag_assay.evals.statistics.board import front
from rag_assay.warehouse.spans import Span


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("needs_all", [True, False])
def test_after_each_passage_it_is_the_metric_at_that_depth(seed: int, needs_all: bool) -> None:
    chance = random.Random(seed)

    def some(number: int) -> list[Span]:
        starts = [chance.randrange(80) for _ in range(number)]
        return [Span(chance.choice("abc"), start, start + chance.randint(1, 40)) for start in starts]

    evidence, hits = some(3), some(8)
    documents = dict.fromkeys([span.doc_id for span in evidence], 1)
    gold = Gold(documents, tuple(evidence), chance.choice([0, 30]), needs_all)
    curve = context_curve(gold, hits)
    for depth in range(1, 9):
        assert curve.values[depth - 1] == pytest.approx(EvidenceCoverage(depth).value(gold, hits))
        assert curve.characters[depth - 1] == sum(hit.end - hit.start for hit in hits[:depth])
    whole = Gold(documents, needs_all=needs_all)
    assert context_curve(whole, hits).values[-1] == pytest.approx(Recall(9).value(whole, hits))


def test_between_passages_it_rises_evenly_and_after_the_last_no_more() -> None:
    curve = ContextCurve((400, 800, 2_400), (0.5, 0.5, 1.0))
    assert [curve.at(tokens) for tokens in (0, 50, 100, 200, 400, 600, 9_999)] == pytest.approx(
        [0, 0.25, 0.5, 0.5, 0.75, 1, 1]
    )
    assert ContextCurve((), ()).at(500) == 0


def test_two_chunkings_of_one_text_have_the_same_in_an_equal_context() -> None:
    gold = Gold({"a": 1}, (Span("a", 0, 1_600),))
    small = context_curve(gold, [Span("a", start, start + 200) for start in range(0, 1_600, 200)])
    large = context_curve(gold, [Span("a", start, start + 800) for start in range(0, 1_600, 800)])
    for tokens in (50, 100, 333, 400):
        assert small.at(tokens) == pytest.approx(large.at(tokens))
    assert small.values[1] < large.values[1], "two passages are not an equal context"


def test_what_overlaps_is_read_twice() -> None:
    gold = Gold({"a": 1}, (Span("a", 0, 400),))
    plain = context_curve(gold, [Span("a", 0, 200), Span("a", 200, 400)])
    overlapping = context_curve(gold, [Span("a", 0, 200), Span("a", 100, 300), Span("a", 200, 400)])
    assert overlapping.at(75) < plain.at(75)


@pytest.mark.parametrize("seed", range(20))
def test_a_front_holds_what_nothing_beats(seed: int) -> None:
    chance = random.Random(seed)
    costs = [float(chance.randint(1, 9)) for _ in range(20)]
    values = [float(chance.randint(1, 9)) for _ in range(20)]
    found = front(costs, values)
    points = list(zip(costs, values, strict=True))
    beaten = {
        (cost, value)
        for cost, value in points
        if any(c <= cost and v >= value and (c, v) != (cost, value) for c, v in points)
    }
    assert {points[at] for at in found} == set(points) - beaten
    assert [points[at] for at in found] == sorted({points[at] for at in found})
    assert front([], []) == []

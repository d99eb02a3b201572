"""Every retrieval metric is held to one contract, which is itself proved against metrics that break it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, log2

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from evals.measuring import AT_K, get_metric
from evals.measuring.contract import Gold, RetrievalMetric, documents_in_order
from evals.measuring.coverage import EvidenceCoverage, covered_characters
from evals.measuring.hit_rate import HitRate
from evals.measuring.mrr import Mrr
from evals.measuring.ndcg import Ndcg
from evals.measuring.recall import Recall
from warehouse.spans import Span

DOCUMENTS = ("a", "b", "c", "d", "e")
LENGTH = 1_000
NEAR = 1e-12

spans = st.builds(
    lambda doc, start, length: Span(doc, start, min(LENGTH, start + length)),
    st.sampled_from(DOCUMENTS),
    st.integers(0, LENGTH - 1),
    st.integers(1, LENGTH),
)
rankings = st.lists(spans, max_size=15)


@st.composite
def golds(draw: st.DrawFn) -> Gold:
    evidence = draw(st.lists(spans, min_size=1, max_size=4))
    missing = draw(st.integers(0, 2))
    grades = {span.doc_id: draw(st.integers(1, 4)) for span in evidence}
    lost = {f"missing evidence {number}": 1 for number in range(missing)}
    return Gold(grades | lost, tuple(evidence), 50 * missing, draw(st.booleans()))


def within_bounds(metric: RetrievalMetric, gold: Gold, hits: list[Span]) -> None:
    value = metric.value(gold, hits)
    assert isfinite(value)
    assert -NEAR <= value <= 1 + NEAR


def nothing_found_is_zero(metric: RetrievalMetric, gold: Gold, hits: list[Span]) -> None:
    assert metric.value(gold, []) == 0
    assert metric.value(gold, [Span("elsewhere", hit.start, hit.end) for hit in hits]) == 0


def perfect_is_one(metric: RetrievalMetric, gold: Gold, hits: list[Span]) -> None:
    reachable = Gold(
        {doc: grade for doc, grade in gold.documents.items() if doc in DOCUMENTS},
        gold.spans,
        0,
        gold.needs_all,
    )
    best_first = sorted(reachable.documents, key=lambda doc: -reachable.documents[doc])
    if metric.k >= len(best_first):
        ranking = [Span(doc, 0, LENGTH) for doc in best_first]
        assert metric.value(reachable, ranking) == pytest.approx(1, abs=NEAR)


def missing_evidence_lowers(metric: RetrievalMetric, gold: Gold, hits: list[Span]) -> None:
    found_only = Gold(
        {doc: grade for doc, grade in gold.documents.items() if doc in DOCUMENTS},
        gold.spans,
        0,
        gold.needs_all,
    )
    assert metric.value(gold, hits) <= metric.value(found_only, hits) + NEAR


def repeats_do_not_help(metric: RetrievalMetric, gold: Gold, hits: list[Span]) -> None:
    value = metric.value(gold, hits)
    repeated = [hit for hit in hits for _ in range(3)]
    assert metric.value(gold, repeated) <= value + NEAR
    assert metric.value(gold, [*hits[:2], *hits]) <= value + NEAR


def what_comes_after_k_is_nothing(metric: RetrievalMetric, gold: Gold, hits: list[Span]) -> None:
    strangers = [Span(f"stranger {number}", 0, 10) for number in range(metric.k)]
    assert metric.value(gold, [*strangers, *hits]) == 0


CHECKS = (
    within_bounds,
    nothing_found_is_zero,
    perfect_is_one,
    missing_evidence_lowers,
    repeats_do_not_help,
    what_comes_after_k_is_nothing,
)


def hold(metric: RetrievalMetric) -> None:
    @settings(
        max_examples=100,
        phases=(Phase.generate,),
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(golds(), rankings)
    def checked(gold: Gold, hits: list[Span]) -> None:
        for check in CHECKS:
            check(metric, gold, hits)

    checked()


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("stem", AT_K)
def test_contract(stem: str, k: int) -> None:
    metric = get_metric(f"{stem}@{k}")
    assert isinstance(metric, RetrievalMetric)
    hold(metric)


# --- the suite itself: each of these is a mistake that has been made elsewhere ------------------------------


class MrrOverChunks(Mrr):
    """Adds up every gold chunk's reciprocal rank: above 1 for two chunks of one document."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return sum(1 / rank for rank, hit in enumerate(hits[: self.k], 1) if hit.doc_id in gold.documents)


class RecallOverChunks(Recall):
    """Counts chunks, so that a document may be found twice."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return sum(hit.doc_id in gold.documents for hit in hits[: self.k]) / len(gold.documents)


class RecallOfTheFound(Recall):
    """Divides by what the corpus has: a denominator that changes with what was crawled."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        there = [doc for doc in gold.documents if doc in DOCUMENTS]
        return sum(doc in there for doc in documents_in_order(hits)[: self.k]) / (2 * len(there))


class GainWithoutIdeal(Ndcg):
    """Is not normalised."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        docs = documents_in_order(hits)[: self.k]
        return sum(gold.documents.get(doc, 0) / log2(rank + 1) for rank, doc in enumerate(docs, 1))


class CoverageTwice(EvidenceCoverage):
    """Counts what two hits share twice."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        covered = sum(covered_characters(span, [hit]) for span in gold.spans for hit in hits[: self.k])
        return covered / (sum(span.end - span.start for span in gold.spans) + gold.missing)


class HitForNothing(HitRate):
    """Calls an empty ranking a success."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return super().value(gold, hits) if hits else 1.0


class NoDepth(HitRate):
    """Looks at the whole ranking, whatever k is."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return float(any(hit.doc_id in gold.documents for hit in hits))


class NotANumber(HitRate):
    """Divides 0 by 0 where nothing is found."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return super().value(gold, hits) or float("nan")


@pytest.mark.parametrize(
    "broken",
    [
        MrrOverChunks,
        RecallOverChunks,
        RecallOfTheFound,
        GainWithoutIdeal,
        CoverageTwice,
        HitForNothing,
        NoDepth,
        NotANumber,
    ],
)
def test_the_suite_notices(broken: type[RetrievalMetric]) -> None:
    with pytest.raises(AssertionError):
        hold(broken(3))

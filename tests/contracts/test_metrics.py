"""Every metric is held to one contract, which is itself proved against metrics that break it.

What all metrics promise (a typed score a case, in order, of what they say that they read and of that case
alone) is checked on cases of every status; what rankings are worth, on random rankings besides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import isfinite, log2
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rag_assay.evals.metrics import IN_TOKENS, METRICS, get_metric, has_depth
from rag_assay.evals.metrics.abstention import Abstention
from rag_assay.evals.metrics.citations import CitationPrecision, CitationRecall
from rag_assay.evals.metrics.contract import (
    AnsweredCase,
    Case,
    Citations,
    CitedSpan,
    DocumentFacts,
    Gold,
    Metric,
    MetricContext,
    RetrievalMetric,
    Score,
    documents_in_order,
)
from rag_assay.evals.metrics.costs import AnswerLatency, RetrievalLatency, Tokens
from rag_assay.evals.metrics.ranking_metrics import (
    EvidenceCoverage,
    HitRate,
    Mrr,
    Ndcg,
    Precision,
    Recall,
    covered_characters,
)
from rag_assay.evals.metrics.text_overlap import RougeL
from rag_assay.evals.metrics.time_window import NdcgInTime
from rag_assay.evals.metrics.token_budget import EvidenceCoverageInTokens, InTokens
from rag_assay.evals.metrics.token_overlap import TokenIou, TokenMetric, TokenPrecision
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span, merge_spans
from tests.fakes.cases import CONTEXT, answer, case, question, ranked
from tests.fakes.named import named

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

DOCUMENT_FACTS = {
    "a": DocumentFacts("2019-05-01", "a"),
    "b": DocumentFacts("2021-05-01", "a"),
    "c": DocumentFacts(None, "c"),
}

AT_K = [stem for stem in METRICS.built_in if has_depth(stem)]
PLAIN = [stem for stem in METRICS.built_in if not has_depth(stem)]


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
    ranking = [Span(doc, 0, LENGTH) for doc in best_first]
    best = 1.0
    if isinstance(metric, TokenMetric):
        ranking = merge_spans(gold.spans) if gold.needs_all else list(gold.spans[:1])
    if isinstance(metric, Precision):
        best = len(best_first) / metric.k  # trec_eval divides by k, however few documents there are to find
    if isinstance(metric, InTokens) and 4 * metric.tokens < sum(hit.end - hit.start for hit in ranking):
        return  # the best ranking does not fit
    if metric.k >= len(ranking):
        assert metric.value(reachable, ranking) == pytest.approx(best, abs=NEAR)


def missing_evidence_lowers(metric: RetrievalMetric, gold: Gold, hits: list[Span]) -> None:
    found_only = Gold(
        {doc: grade for doc, grade in gold.documents.items() if doc in DOCUMENTS},
        gold.spans,
        0,
        gold.needs_all,
    )
    assert metric.value(gold, hits) <= metric.value(found_only, hits) + NEAR


def repeats_do_not_help(metric: RetrievalMetric, gold: Gold, hits: list[Span]) -> None:
    if isinstance(metric, TokenMetric):
        metric = type(metric)(100)  # where a repeat pushes nothing out, which may have been worse
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


@cache
def examples() -> Sequence[tuple[Gold, tuple[Span, ...]]]:
    """A hundred pairs of gold and a ranking, the same for every metric."""
    found: list[tuple[Gold, tuple[Span, ...]]] = []

    @settings(
        max_examples=100,
        phases=(Phase.generate,),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(golds(), rankings)
    def collect(gold: Gold, hits: list[Span]) -> None:
        found.append((gold, tuple(hits)))

    collect()
    return found


def hold(metric: RetrievalMetric) -> None:
    for gold, hits in examples():
        with named((gold, hits)):
            for check in CHECKS:
                check(metric, gold, list(hits))


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("stem", AT_K)
def test_contract(stem: str, k: int) -> None:
    metric = get_metric(f"{stem}@{k}")
    assert isinstance(metric, RetrievalMetric)
    hold(metric)


@pytest.mark.parametrize("tokens", [1, 60, 700, 2000])
@pytest.mark.parametrize("stem", IN_TOKENS)
def test_contract_within_a_budget(stem: str, tokens: int) -> None:
    metric = get_metric(f"{stem}@{tokens}tokens")
    assert isinstance(metric, InTokens)
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


class OverlapsForFree(TokenPrecision):
    """Counts what passages repeat among what was found each time: two copies of the evidence are better."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        held = sum(
            covered_characters(span, [hit]) for span in merge_spans(gold.spans) for hit in hits[: self.k]
        )
        other = sum(hit.end - hit.start for hit in dict.fromkeys(hits[: self.k]))
        return min(1.0, held / other) if other else 0.0


class UnionIsTheEvidence(TokenIou):
    """Forgets what the passages hold beside the evidence, and evidence that is not in the corpus."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        evidence = merge_spans(gold.spans)
        held = sum(covered_characters(span, hits[: self.k]) for span in evidence)
        return 2 * held / sum(span.end - span.start for span in evidence)


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


class NoBudget(EvidenceCoverageInTokens):
    """Reads the whole ranking, whatever the budget is."""

    def value(self, gold: Gold, hits: Sequence[Span]) -> float:
        return EvidenceCoverage(len(hits)).value(gold, hits)


@pytest.mark.parametrize(
    "broken",
    [
        NoBudget,
        MrrOverChunks,
        RecallOverChunks,
        RecallOfTheFound,
        GainWithoutIdeal,
        CoverageTwice,
        OverlapsForFree,
        UnionIsTheEvidence,
        HitForNothing,
        NoDepth,
        NotANumber,
    ],
)
def test_the_suite_notices(broken: type[RetrievalMetric]) -> None:
    with pytest.raises(AssertionError):
        hold(broken(3))


# --- every metric: a score a case ---------------------------------------------------------------------------


def _cases() -> list[Case]:
    """Return cases of every status of ranking and answer, and of every kind of question."""
    texts = [
        "At noon.",
        "It leaves the harbour at noon, and at six in winter.",
        "Tickets are sold on the quay.",
    ]
    spans = [(), (Span("a", 0, 10),), (Span("b", 0, 40), Span("a", 5, 20)), (Span("c", 0, 9),)]
    cases = [
        case(hits=hits, answer=answer(text=text, seconds=0.5 + number, completion_tokens=9 + number))
        for number, (hits, text) in enumerate(zip(spans, [*texts, "Noon."], strict=True))
    ]
    cases += [case(ranked=ranked(status), hits=()) for status in (Status.ERROR, Status.TIMEOUT)]
    cases += [case(answer=answer(status)) for status in Status]
    near = CitedSpan(1, 0, Span("a", 5, 20))
    cites = [(near,), (near, CitedSpan(2, 0, Span("b", 0, 9)), CitedSpan(9, None)), (CitedSpan(7, 1),), ()]
    cases += [case(answer=answer(citations=Citations(2, one))) for one in cites]
    cases += [case(answer=answer(citations=Citations(0))), case(answer=answer(citations=None))]
    cases += [case(answer=None), case(answer=answer(text="")), case(answer=answer(prompt_tokens=None))]
    refusal = answer(Status.REFUSED, "The documents do not say.")
    kinds = [
        question(gold="documents"),
        question(gold="none", answerable=False, ground_truth=None),
        question(ground_truth="…"),
    ]
    kinds += [
        question(time_from="2019-01-01"),
        question(time_to="2019-12-31", needs="any"),
        question(gold="none", time_from="2019-01-01", time_to="2019-01-01"),
    ]
    cases += [case(question=one, answer=refusal) for one in kinds]
    hits = (Span("b", 0, 10), Span("a", 0, 10))
    cases += [case(question=one, hits=hits, documents=DOCUMENT_FACTS) for one in kinds]
    return [
        replace(one, question={**one.question, "question_id": f"q{number}"})
        for number, one in enumerate(cases)
    ]


def _changes(metric: Metric) -> list[Callable[[Case], Case]]:
    """Return changes of what a metric does not read: none may change its scores."""

    def other_hits(one: Case) -> Case:
        return replace(one, hits=(Span("z", 0, 5),))

    def slower_ranking(one: Case) -> Case:
        return replace(one, ranked=one.ranked._replace(seconds=one.ranked.seconds and 77.0))

    def other_text(one: Case) -> Case:
        text = one.answer.text and f"{one.answer.text} Or so." if one.answer else None
        return replace(one, answer=one.answer and one.answer._replace(text=text))

    def dearer_answer(one: Case) -> Case:
        if one.answer is None or one.answer.seconds is None:
            return one
        return replace(one, answer=one.answer._replace(seconds=88.0, prompt_tokens=7, completion_tokens=7))

    def other_citations(one: Case) -> Case:
        cited = Citations(3, (CitedSpan(4, 2), CitedSpan(1, 0, Span("a", 0, 9))))
        return replace(one, answer=one.answer and one.answer._replace(citations=cited))

    def no_answer(one: Case) -> Case:
        return replace(one, answer=None)

    def failed_ranking(one: Case) -> Case:
        return replace(one, ranked=ranked(Status.ERROR))

    def other_documents(one: Case) -> Case:
        return replace(one, documents={"a": DocumentFacts("1950-01-01", "c"), "c": DocumentFacts(None, "c")})

    changes: dict[str, Callable[[Case], Case]] = {
        "ranking": other_hits,
        "documents": other_documents,
        "retrieval_cost": slower_ranking,
        "answer": other_text,
        "citations": other_citations,
        "answer_cost": dearer_answer,
    }
    found = [change for reading, change in changes.items() if reading not in metric.reads]
    found += [] if metric.reads & {"answer", "citations", "answer_cost"} else [no_answer]
    return found + ([] if metric.reads & {"ranking", "retrieval_cost"} else [failed_ranking])


def _alike(one: Sequence[Score], other: Sequence[Score]) -> None:
    assert [score._replace(value=None) for score in one] == [score._replace(value=None) for score in other]
    for mine, yours in zip(one, other, strict=True):
        assert mine.value == (yours.value if yours.value is None else pytest.approx(yours.value, abs=1e-6))


def hold_scores(metric: Metric, context: MetricContext = CONTEXT) -> None:
    cases = [one for one in _cases() if metric.applies(one.question)]
    scores = metric.measure(cases, context)
    _typed(metric, cases, scores)
    _alike(metric.measure(cases, context), scores)
    assert metric.measure([], context) == []
    _alike([score for one in cases for score in metric.measure([one], context)], scores)
    order = random.Random(7).sample(range(len(cases)), len(cases))
    _alike(metric.measure([cases[at] for at in order], context), [scores[at] for at in order])
    _alike(metric.measure([one.only(metric.reads) for one in cases], context), scores)
    for change in _changes(metric):
        _alike(metric.measure([change(one) for one in cases], context), scores)


def _typed(metric: Metric, cases: Sequence[Case], scores: Sequence[Score]) -> None:
    """A score a case: a finite value within the bounds, or a status that says why there is none."""
    low, high = metric.bounds
    assert len(scores) == len(cases)
    for one, score in zip(cases, scores, strict=True):
        assert isinstance(score.status, Status)
        assert (score.value is not None) == (score.status is Status.OK)
        assert score.reason or score.status is Status.OK
        if score.value is not None:
            assert isfinite(score.value)
            assert low is None or score.value >= low - 1e-6
            assert high is None or score.value <= high + 1e-6
        if metric.reads & {"ranking", "retrieval_cost"} and one.ranked.status is not Status.OK:
            assert score == Score(one.ranked.status, None, one.ranked.reason)
        of_answer = metric.reads & {"answer", "citations"}
        if of_answer and one.answer and one.answer.status not in {Status.OK, Status.REFUSED}:
            assert score == Score(one.answer.status, None, one.answer.reason)


MODELS = {"semantic_similarity"}
ALL = [
    *(pytest.param(f"{stem}@3", id=stem) for stem in AT_K),
    *(pytest.param(name, marks=[pytest.mark.models] if name in MODELS else []) for name in PLAIN),
]


@pytest.mark.parametrize("name", ALL)
def test_every_metric_gives_each_case_its_own_score(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name in MODELS:
        request.getfixturevalue("weights")("all-MiniLM-L6-v2")
    context = MetricContext(Home(tmp_path))
    hold_scores(get_metric(name), context)
    context.close()


class Forgets(Ndcg):
    """Leaves the failed ones out."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        return [score for score in super().measure(cases, context) if score.status is Status.OK]


class Sorts(Ndcg):
    """Gives the best ones first."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        return sorted(super().measure(cases, context), key=lambda score: -(score.value or 0))


class ZeroForFailure(Ndcg):
    """Counts a failed ranking as one that found nothing."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        return [Score(Status.OK, self.value(one.gold, one.hits)) for one in cases]


class ZeroLatency(RetrievalLatency):
    """Says that a failure took no time."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        return [Score(Status.OK, one.ranked.seconds or 0.0) for one in cases]


class ReadsTheClock(Ndcg):
    """Takes the time of a ranking off its worth, and does not say that it reads it."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        return [
            score._replace(value=score.value and score.value / (1 + (one.ranked.seconds or 0)))
            for one, score in zip(cases, super().measure(cases, context), strict=True)
        ]


class ReadsTheRanking(RougeL):
    """Measures only what was answered from a good ranking."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        good = [replace(one, answer=one.answer if one.hits else None) for one in cases]
        return super().measure(good, context)


class RelativeToTheBest(AnswerLatency):
    """Divides by the largest of the batch: another case changes all."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        scores = super().measure(cases, context)
        largest = max((score.value or 0 for score in scores), default=1) or 1
        return [score._replace(value=score.value and score.value / largest) for score in scores]


class CitesNothingIsZero(CitationPrecision):
    """Counts an answer without citations as one whose citations are all wrong."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        scores = super().measure(cases, context)
        return [score if score.status is Status.OK else score._replace(value=0.0) for score in scores]


class ReadsTheText(CitationRecall):
    """Divides by the words of the text, which it does not say that it reads."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        return [
            score._replace(
                value=score.value
                and score.value / len(((one.answer and one.answer.text) or "").split() or [1])
            )
            for one, score in zip(cases, super().measure(cases, context), strict=True)
        ]


class ReadsTheDays(Ndcg):
    """Counts only what was published in time, and does not say that it reads when that was."""

    def seen(self, case: Case) -> tuple[Gold, Sequence[Span]]:
        return NdcgInTime(self.k).seen(case)


class Guesses(Abstention):
    """Gives another value each time."""

    chance = random.Random(7)

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        return [Score(Status.OK, self.chance.random()) for _ in cases]


class Percent(RougeL):
    """Is not within the bounds that it names."""

    def scores(self, cases: Sequence[AnsweredCase], context: MetricContext) -> list[Score]:
        return [score._replace(value=100 * (score.value or 0)) for score in super().scores(cases, context)]


class NanTokens(Tokens):
    """Has NaN where nothing is known."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        nan = Score(Status.OK, float("nan"))
        return [score if score.value else nan for score in super().measure(cases, context)]


class Silent(Abstention):
    """Gives no reason."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        return [score._replace(reason=None) for score in super().measure(cases, context)]


class ValueOfAFailure(Abstention):
    """Has a value although the call failed."""

    def measure(self, cases: Sequence[Case], context: MetricContext) -> list[Score]:
        return [score._replace(value=score.value or 0.0) for score in super().measure(cases, context)]


@pytest.mark.parametrize(
    "broken",
    [
        Forgets(3),
        Sorts(3),
        ZeroForFailure(3),
        ZeroLatency(),
        ReadsTheClock(3),
        ReadsTheRanking(),
        RelativeToTheBest(),
        Guesses(),
        Percent(),
        NanTokens(),
        Silent(),
        ValueOfAFailure(),
        CitesNothingIsZero(),
        ReadsTheText(),
        ReadsTheDays(3),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_the_suite_notices_scores_that_are_not_a_the_cases_own(broken: Metric) -> None:
    with pytest.raises(AssertionError):
        hold_scores(broken)

"""The decision: cheaper only where little is lost, never by an unknown cost, and honest about the sample."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from rag_assay.evals.metrics.costs import RunningCost
from rag_assay.evals.statistics.comparison import UNCOMPARED
from rag_assay.evals.statistics.question_clusters import Clustering
from rag_assay.evals.statistics.verdict import (
    NOT_RANKED,
    NOT_RUN,
    Verdict,
    VerdictInputs,
    labels_of,
    verdict_on,
    verdict_sentences,
)
from rag_assay.evals.study.complexity import Simplicity
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import VERDICTS


class Metric(NamedTuple):
    name: str = "evidence_coverage@2000tokens"
    title: str = "Evidence coverage in 2,000 tokens"
    kind: str = "answer"
    unit: str = ""
    higher_is_better: bool = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)


COVERAGE = Metric()
RANKING = Metric("ndcg@10", "nDCG@10", "retrieval")
LATENCY = Metric("latency", "Latency", "cost", "s", higher_is_better=False, bounds=(0.0, None))


def row(cell: str, rank: int | None, value: float | None, loss: float | None = None, **fields: Any) -> dict:
    leads = rank == 1
    return {
        **UNCOMPARED,
        **dict.fromkeys(("embedder", "generator", "answered")),
        "subset": "all",
        "cell": cell,
        "chunking": "c",
        "retriever": cell,
        "metric": COVERAGE.name,
        "rank": rank,
        "value": value,
        "low": None if value is None else value - 0.1,
        "high": None if value is None else value + 0.1,
        "n": 60,
        "coverage": 1.0 if rank else 0.5,
        "clusters": 20,
        "leader": "a",
        "tied": True if rank else None,
        "p_best": 0.5,
        "expected_loss": 0.0 if leads else loss,
        "p_loss": 0.0 if leads else 0.3,
        "bound": -0.05,
        **fields,
    }


def facts(costs: dict[str, RunningCost] | None = None, **fields: Any) -> VerdictInputs:
    known = {name: RunningCost(1.0, 1.0) for name in "abcd"} | (costs or {})
    return VerdictInputs(
        **{"labels": {}, "simple": {}, "costs": known, "clusters": Clustering("documents", {})} | fields
    )


def verdict(
    rows: list[dict], given: VerdictInputs | None = None, metrics: tuple[Metric, ...] = (COVERAGE,)
) -> Verdict:
    found = verdict_on("s", rows, metrics, given or facts())
    stored = frame([found.row()], VERDICTS).row(0, named=True)
    assert Verdict.of_row(stored) == found, "what is stored is what was decided"
    known = given or facts()
    german = verdict_sentences(found, known.labels, judged=known.judged, german=True)
    assert len(german) == len(found.sentences)
    assert not set(german) & set(found.sentences)
    assert not re.search(r"\b(?:the|is|are|of|pipeline|question|document)\b", " ".join(german)), german
    assert not re.search(r"\d,\d", " ".join(german)), "a decimal comma to its readers"
    assert _numbers(german) == _numbers(found.sentences)
    return found


def _numbers(sentences: tuple[str, ...]) -> list[list[str]]:
    return [sorted(re.findall(r"\d+(?:[.,]\d+)*", one.replace("\u202f", ","))) for one in sentences]


def taken(
    rows: list[dict], given: VerdictInputs | None = None, metrics: tuple[Metric, ...] = (COVERAGE,)
) -> str | None:
    found = verdict(rows, given, metrics).recommended
    return found.cell if found else None


@pytest.mark.parametrize(
    ("loss", "expected"), [(0.0, "b"), (0.01, "b"), (0.0101, "a"), (0.2, "a"), (None, "a")]
)
def test_a_cheaper_cell_is_taken_only_where_at_most_half_of_the_margin_is_lost(
    loss: float | None, expected: str
) -> None:
    rows = [row("a", 1, 0.7), row("b", 2, 0.69, loss)]
    assert taken(rows, facts({"b": RunningCost(0.1, 1.0)})) == expected


def test_the_margin_is_the_studys() -> None:
    rows = [row("a", 1, 0.7), row("b", 2, 0.6, 0.04)]
    cheap = {"b": RunningCost(0.1, 1.0)}
    assert taken(rows, facts(cheap)) == "a"
    assert taken(rows, facts(cheap, margin=0.08)) == "b"


def test_what_is_significantly_worse_is_never_taken() -> None:
    rows = [row("a", 1, 0.7), row("b", 2, 0.699, 0.001, tied=False)]
    found = verdict(rows, facts({"b": RunningCost(0.0, 0.1)}))
    assert found.recommended is not None
    assert (found.recommended.cell, found.tied, found.worse) == ("a", (), ("b",))


@pytest.mark.parametrize(
    ("usd", "seconds", "expected"),
    [
        (0.95, 1.0, "a"),  # prices vary by 10 %
        (0.80, 1.0, "b"),
        (1.0, 0.9, "a"),  # times by a quarter
        (1.0, 0.5, "b"),
        (2.0, 0.1, "a"),  # the price comes first
        (None, 0.1, "a"),  # what is not known is not cheaper
        (0.1, None, "b"),
    ],
)
def test_costs_count_where_they_differ_by_more_than_noise(
    usd: float | None, seconds: float | None, expected: str
) -> None:
    rows = [row("a", 1, 0.7), row("b", 2, 0.7, 0.001)]
    assert taken(rows, facts({"b": RunningCost(usd, seconds)})) == expected


def test_fourteen_milliseconds_and_no_money_decide_nothing() -> None:
    rows = [row("a", 1, 0.7), row("b", 2, 0.7, 0.001)]
    assert taken(rows, facts({"a": RunningCost(0.0, 0.020), "b": RunningCost(0.0, 0.006)})) == "a"


def test_a_leader_of_unknown_cost_is_not_replaced_for_cost() -> None:
    rows = [row("a", 1, 0.7), row("b", 2, 0.7, 0.001)]
    found = verdict(rows, facts({"a": RunningCost(), "b": RunningCost(0.0, 0.1)}))
    assert found.recommended is not None
    assert found.recommended.cell == "a" or found.recommended.seconds is not None
    none = verdict(rows, facts({"a": RunningCost(), "b": RunningCost()}))
    assert none.recommended == none.leader
    assert "not known" in none.sentences[-1]
    assert "US$" not in " ".join(none.sentences)


@pytest.mark.parametrize(
    ("prefer", "expected"), [("quality", "a"), ("cost", "b"), ("latency", "c"), ("simplicity", "d")]
)
def test_what_is_preferred(prefer: str, expected: str) -> None:
    rows = [row("a", 1, 0.7), *(row(name, at, 0.7, 0.001) for at, name in enumerate("bcd", 2))]
    costs = {"b": RunningCost(0.1, 1.0), "c": RunningCost(1.0, 0.1)}
    simple = {name: Simplicity(0, name != "d", 1) for name in "abcd"}
    assert taken(rows, facts(costs, prefer=prefer, simple=simple)) == expected


@pytest.mark.parametrize("documents", [1, 5, 6])
def test_fewer_than_six_documents_support_no_claim_about_others(documents: int) -> None:
    rows = [
        row("a", 1, 0.7, clusters=documents, detectable=0.2),
        row("b", 2, 0.69, 0.3, clusters=documents, detectable=0.2),
    ]
    found = verdict(rows, facts({"b": RunningCost(0.1, 1.0)}))
    said = " ".join(found.sentences)
    assert found.generalises == (documents == 6)
    few = "1 document supports" if documents == 1 else f"{documents} documents support"
    assert (f"{few} no claim about other documents" in said) == (documents < 6)
    assert ("would mostly be missed" in said) == (documents == 6)
    assert found.recommended is not None
    assert found.recommended.cell == ("a" if documents == 6 else "b"), "on these documents .01 is within .02"


def test_within_the_margin_is_said_only_where_it_is_shown() -> None:
    cheap = facts({"b": RunningCost(0.1, 1.0)})
    wide = verdict([row("a", 1, 0.7), row("b", 2, 0.7, 0.001)], cheap)
    near = verdict([row("a", 1, 0.7), row("b", 2, 0.7, 0.001, within_margin=True)], cheap)
    assert (wide.within_margin, near.within_margin) == ((), ("b",))
    assert "That it is within the margin is not shown." in wide.sentences
    assert "b is within the margin." in near.sentences


def test_what_is_within_the_margin_is_neither_worse_nor_open() -> None:
    rows = [
        row("a", 1, 0.7),
        row("b", 2, 0.699, 0.001, within_margin=True),
        row("c", 3, 0.69, 0.01, questions_needed=120),
        row("d", 4, 0.5, 0.2, tied=False),
    ]
    found = verdict(rows)
    assert (found.within_margin, found.tied, found.worse) == (("b",), ("b", "c"), ("d",))
    assert found.documents_needed == 40, "of c alone: b is settled"
    assert "c is tied with it." in found.sentences
    assert "b is within the margin." in found.sentences
    german = verdict_sentences(found, {}, german=True)
    assert "b liegt innerhalb der Toleranz." in german


def test_without_a_rank_nothing_is_recommended() -> None:
    assert verdict([row("a", None, None)]).reason == NOT_RANKED
    assert verdict([]).reason == NOT_RUN
    beside = [row("a", None, None), row("b", 1, 0.5, subset="sample of 6", leader="b")]
    assert taken(beside) is None, "a sample says nothing of all questions"
    assert verdict(beside[1:]).subset == "sample of 6"
    assert verdict([]).sentences == ("No pipeline is recommended: no pipeline was run.",)


def test_a_cell_below_the_gate_is_counted_and_its_coverage_said() -> None:
    found = verdict([row("a", 1, 0.7), row("b", None, 0.9, coverage=0.33)])
    assert (found.unranked, found.coverage) == (("b",), 0.33)
    assert "1 pipeline has no rank: coverage below 98 %." in found.sentences


def test_a_metric_of_rankings_leaves_the_choice_of_a_generator_to_one_of_answers() -> None:
    names = ("small", "large")
    first = [
        row(name, 1, 0.7, 0.0, metric=RANKING.name, generator=name, leader="small", retriever="r")
        for name in names
    ]

    def by_answers(loss: float, large: RunningCost) -> Verdict:
        others = [
            row("small", 1, 0.5, metric=COVERAGE.name, generator="small") | {"expected_loss": loss},
            row("large", 1, 0.6, metric=COVERAGE.name, generator="large") | {"expected_loss": 0.0},
        ]
        costs = {"small": RunningCost(1.0, 1.0), "large": large}
        return verdict([*first, *others], facts(costs), (RANKING, COVERAGE))

    better = by_answers(0.1, RunningCost(9.0, 9.0))
    assert better.recommended is not None
    assert (better.recommended.cell, better.by) == ("large", COVERAGE.name)
    equal = by_answers(0.005, RunningCost(9.0, 9.0))
    assert equal.recommended is not None
    assert equal.recommended.cell == "small", "as good, and cheaper"


def test_an_unbounded_metric_needs_a_stated_margin() -> None:
    rows = [row("a", 1, 0.2, metric=LATENCY.name), row("b", 2, 0.201, 0.001, metric=LATENCY.name)]
    cheap = {"b": RunningCost(0.1, 1.0)}
    assert taken(rows, facts(cheap), (LATENCY,)) == "a"
    assert taken(rows, facts(cheap, margin=0.01), (LATENCY,)) == "b"


@pytest.mark.parametrize(
    ("metric", "context"),
    [
        ("evidence_coverage@2000tokens", "tokens"),
        ("evidence_coverage@5", "passages"),
        ("semantic_similarity", None),
    ],
)
def test_the_verdict_says_whether_contexts_are_equally_long(metric: str, context: str | None) -> None:
    rows = [row("a", 1, 0.7, metric=metric), row("b", 2, 0.6, 0.1, metric=metric)]
    found = verdict(rows, facts(chunks_differ=True), (Metric(metric),))
    said = " ".join(found.sentences)
    assert found.context == context
    assert ("equal context of 2,000 tokens" in said) == (context == "tokens")
    assert ("favours long chunks" in said) == (context == "passages")
    assert verdict(rows, facts(), (Metric(metric),)).context is None, "one chunking has one length"


def test_labels_name_what_differs() -> None:
    rows = [
        row("s.c.e.x.g", 1, 0.7, retriever="x", embedder="e"),
        row("s.c.e.y.g", 2, 0.7, retriever="y", embedder="e"),
    ]
    assert labels_of(rows) == {"s.c.e.x.g": "x", "s.c.e.y.g": "y"}
    assert labels_of(rows[:1]) == {"s.c.e.x.g": "c · x"}


@pytest.mark.parametrize("tied", [0, 1, 2, 3, 9])
def test_every_sentence_has_one_idea_and_few_words(tied: int) -> None:
    rows = [row("a", 1, 0.7)] + [row(f"b{at}", at + 2, 0.69, 0.1) for at in range(tied)]
    rows += [row(f"c{at}", at + 20, 0.2, 0.5, tied=False) for at in range(14)]
    found = verdict(rows)
    assert found.sentences[0] == "Use a."
    assert all(sentence.endswith(".") and len(sentence.split()) <= 30 for sentence in found.sentences)
    assert ("14 pipelines are significantly worse." in found.sentences) == (tied > 0)
    assert ("Every other pipeline is significantly worse." in found.sentences) == (tied == 0)
    if tied > 3:
        assert f"b0, b1 and {tied - 2} more are tied with it." in found.sentences


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        ("language_model", "A language model judges this metric"),
        ("similarity", "This metric is a cosine similarity of embeddings"),
        ("entailment_classifier", "An entailment classifier judges this metric"),
        ("brief", "A judge without a language model gives this metric"),
    ],
)
def test_the_verdict_says_what_kind_of_judge_gives_its_metric(judged: str, says: str) -> None:
    found = verdict([row("a", 1, 0.7), row("b", 2, 0.69, 0.01)], facts(judged=judged))
    assert found.sentences[-1].startswith(says)
    assert not any("judge" in one for one in verdict([row("a", 1, 0.7)]).sentences)

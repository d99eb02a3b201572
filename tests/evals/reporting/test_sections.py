"""What stands between leaderboard and facts: costs, groups, hardest questions, failures."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from rag_assay.evals.reporting.answers import evidence_spans, segments
from rag_assay.evals.reporting.contexts import costs
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import safe_link
from rag_assay.evals.reporting.hardest import hardest
from rag_assay.evals.reporting.standings import entries, groups, main_subset, subsets
from rag_assay.evals.reporting.trust import failures, reasons_missing
from rag_assay.evals.reporting.view import view
from tests.fakes.report_data import NDCG, report_data


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def test_costs_are_taken_over_good_rows_only(data: ReportData) -> None:
    found = costs(data)
    cell = "energy.articles.minilm.dense.extractive"
    seconds = data.answers.filter((pl.col("cell") == cell) & (pl.col("status") == "ok"))["seconds"]
    assert seconds.len() < 40
    cost = found[cell, "latency"]
    assert cost["n"] == seconds.len()
    assert cost["p50"] == pytest.approx(seconds.median())
    assert cost["p95"] == pytest.approx(seconds.quantile(0.95, "linear"))
    assert cost["p50"] > 0


def test_groups_count_what_has_a_value(data: ReportData) -> None:
    best = entries(data, main_subset(data))
    made = groups(data, "type", best)
    assert sum(made.questions.values()) == 40
    first = best[0].cells[0]
    total = sum(
        one["mean"] * one["with_value"] for name in made.questions if (one := made.means[name, first])["mean"]
    )
    assert total / 40 == pytest.approx(best[0].result.value)
    lost = "energy.articles.minilm.dense.extractive"
    assert sum(made.means[name, lost]["with_value"] for name in made.questions) == 35
    assert sum(made.means[name, lost]["n"] for name in made.questions) == 40


def test_unanswerable_questions_and_follow_ups_are_groups_of_their_own(data: ReportData) -> None:
    ids = pl.col("question_id")
    questions = data.questions.with_columns(
        answerable=~ids.is_in(["q001", "q002"]),
        conversation=pl.when(ids.is_in(["q002", "q003", "q004"]))
        .then(pl.lit(["Who?", "She."]))
        .otherwise(pl.lit([], pl.List(pl.String))),
        type=pl.when(ids == "q005").then(pl.lit("multi_hop")).otherwise(pl.col("type")),
    )
    made = groups(replace(data, questions=questions), "type", entries(data, main_subset(data)))
    sizes = {name: made.questions[name] for name in ("unanswerable", "follow_up", "multi_hop")}
    assert sizes == {"unanswerable": 2, "follow_up": 2, "multi_hop": 1}
    assert sum(made.questions.values()) == 40


def test_the_hardest_question_is_the_one_that_most_cells_miss(data: ReportData) -> None:
    shown = view(data).hardest
    shares = [hard.missed / hard.cells for hard in shown.questions]
    assert shares == sorted(shares, reverse=True)
    worst = shown.questions[0]
    scores = data.scores.filter(
        (pl.col("question_id") == worst.question["question_id"])
        & (pl.col("metric") == NDCG.name)
        & ~pl.col("cell").str.ends_with("small")
    )
    assert worst.missed == scores.filter(pl.col("value") == 0).height
    assert worst.cells == scores["value"].drop_nulls().len()
    assert len(shown.questions) + shown.left_out <= 40


def test_the_evidence_is_marked_in_the_hits_of_the_leading_cell(data: ReportData) -> None:
    marked = [
        (hard.question["ground_truth"], "".join(part.text for part in hit["segments"] if part.evidence))
        for hard in view(data).hardest.questions
        for hit in hard.hits
        if hit["evidence"]
    ]
    assert marked
    assert all(text and text in truth for truth, text in marked)


def test_a_text_whose_length_is_not_its_span_is_not_marked(data: ReportData) -> None:
    changed = data.hits.with_columns(text=pl.lit("x ") + pl.col("text"))
    cell = view(data).hardest.leading_cell
    assert cell is not None
    made = hardest(ReportData(**{**vars(data), "hits": changed}), [cell], {cell: cell})
    assert not any(part.evidence for hard in made.questions for hit in hard.hits for part in hit["segments"])


def test_evidence_spans_are_clipped_merged_and_of_the_same_document() -> None:
    def item(doc: str, start: int | None, end: int | None, quote: str | None = "q") -> dict[str, object]:
        return {"doc_id": doc, "start": start, "end": end, "quote": quote}

    evidence = [
        item("d", 95, 110),
        item("d", 105, 120),
        item("e", 100, 200),
        item("d", 190, 300),
        item("d", None, None),
    ]
    assert evidence_spans("d", 100, 200, evidence) == [(0, 20), (90, 100)]
    assert evidence_spans("d", 100, 200, [item("d", None, None, quote=None)]) == [(0, 100)]
    assert evidence_spans("d", 100, 200, [item("d", 200, 210)]) == []  # ends are open


def test_a_long_text_is_cut_around_its_evidence() -> None:
    text = "a" * 1000 + "EVIDENCE" + "b" * 1000
    parts = segments(text, [(1000, 1008)], 100)
    assert [part.text for part in parts if part.evidence] == ["EVIDENCE"]
    assert len("".join(part.text for part in parts)) == 102  # with an ellipsis at each end
    assert "".join(part.text for part in segments(text, [], 5000)) == text


def test_failures_are_counted_and_never_lost(data: ReportData) -> None:
    found = failures(data)
    bad = (
        data.scores.filter(pl.col("status") != "ok").height
        + data.answers.filter(pl.col("status") != "ok").height
    )
    assert bad == found.rows == sum(found.by_status.values())
    assert found.kinds_left_out == 0
    assert sum(failure["rows"] * len(failure["metrics"]) for failure in found.shown) == bad
    assert reasons_missing(data)["energy.articles.minilm.dense.extractive", NDCG.name] == "5 × error"


def test_subsets_come_with_all_questions_first(data: ReportData) -> None:
    assert [(subset.name, len(subset.standings), subset.n(NDCG)) for subset in subsets(data)] == [
        ("all", 12, 40),
        ("sample of 12", 24, 12),
    ]
    assert main_subset(data).standings[0].rank == 1
    assert main_subset(data).standings[-1].rank is None


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " https://a.example",
        "data:text/html,x",
        "//a.example",
        "https://",
        "https://[",
        "java\nscript:x",
        "",
        None,
    ],
)
def test_only_web_addresses_become_links(url: str | None) -> None:
    assert safe_link(url) is None

"""The report says what its primary metric cannot see."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl

from rag_assay.evals.reporting.caveats import blind_spot_sentences
from rag_assay.evals.reporting.data import MetricInfo, ReportData
from rag_assay.evals.reporting.page import render_html
from rag_assay.evals.reporting.standings import main_subset
from rag_assay.evals.reporting.terminal import leaderboard_table
from tests.evals.reporting.test_terminal import printed
from tests.fakes.report_data import LATENCY, NDCG, board_data

DOCUMENTS = dataclasses.replace(NDCG, sees="documents")
COVERAGE = MetricInfo(
    "evidence_coverage@5", "Evidence coverage @ 5", "retrieval", True, (0, 1), "", "", "passages"
)

IN_TOKENS = dataclasses.replace(COVERAGE, name="evidence_coverage@2000tokens")


def told(data: ReportData) -> tuple[str, ...]:
    return blind_spot_sentences(data, main_subset(data))


def two_metrics(rows: list[dict[str, Any]], second: MetricInfo = COVERAGE) -> ReportData:
    """Build a report of two metrics: `value` is of nDCG, `held` and `tied` of the second."""
    first = board_data([{"rank": n, **row, "tied": None} for n, row in enumerate(rows, 1)], metric=DOCUMENTS)
    held = [
        {**row, "rank": n, "value": row["held"], "difference": row["held"] - rows[0]["held"]}
        for n, row in enumerate(rows, 1)
    ]
    other = board_data(held, metric=second)
    return dataclasses.replace(
        first,
        metrics=(DOCUMENTS, second),
        leaderboard=pl.concat([first.leaderboard, other.leaderboard]),
    )


def test_the_leader_by_documents_that_holds_less_evidence_is_told() -> None:
    rows = [
        {"chunking": "t128", "value": 0.8, "held": 0.594, "tied": True},
        {"chunking": "t256", "value": 0.7, "held": 0.65, "tied": True},  # may be chance
        {"chunking": "t508", "value": 0.6, "held": 0.788, "tied": False},
        {"chunking": "t400", "value": 0.5, "held": 0.75, "tied": False},
        {"chunking": "t16", "value": 0.4, "held": 0.1, "tied": False},
    ]
    data = two_metrics(rows)
    blind, beaten = told(data)
    assert blind.startswith("nDCG@10 reads a ranking as documents")
    assert beaten == (
        "By Evidence coverage @ 5 the leader has 0.594; 2 ranked cells are significantly better, "
        "the most t508 with 0.788."
    )
    assert beaten in " ".join(printed(data, 400).split())
    html = render_html(data)
    assert "What nDCG@10 cannot see" in html
    assert "2 ranked cells are significantly better" in html
    assert leaderboard_table(data) is not None


def test_one_chunking_is_no_matter() -> None:
    rows = [{"retriever": name, "chunking": "t", "cell": name, "value": 0.5, "rank": 1} for name in "ab"]
    assert told(board_data(rows, metric=DOCUMENTS)) == ()


def test_a_fixed_number_of_passages_favours_long_chunks_and_a_budget_of_context_does_not() -> None:
    rows = [{"chunking": name, "value": 0.5, "rank": 1} for name in "ab"]
    (text,) = told(board_data(rows, metric=COVERAGE))
    assert "as many long ones hold more text" in text
    assert "put evidence_coverage@2000tokens first" in text
    assert told(board_data(rows, metric=IN_TOKENS)) == ()
    alike = [{**row, "chunking": "t", "retriever": row["chunking"]} for row in rows]
    assert told(board_data(alike, metric=COVERAGE)) == ()


def test_a_metric_of_passages_sees_no_answers() -> None:
    rows = [{"chunking": name, "generator": name, "value": 0.5, "rank": 1} for name in "ab"]
    (text,) = told(board_data(rows, metric=IN_TOKENS))
    assert "generators on the same ranking have the same value" in text


def test_costs_are_no_quality() -> None:
    rows = [
        {"chunking": "t", "cell": "1", "retriever": "a", "value": 0.8, "held": 3.0, "tied": True},
        {"chunking": "t", "cell": "2", "retriever": "b", "value": 0.6, "held": 0.1, "tied": False},
    ]
    assert told(two_metrics(rows, LATENCY)) == ()


def test_nothing_ranked_has_nothing_to_say_of_a_leader() -> None:
    assert told(board_data([], metric=DOCUMENTS)) == ()

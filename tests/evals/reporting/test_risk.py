"""Risk-coverage curves of a report: of which answers, by which metric, and where there are none."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.figures.planes import risk_rows, risks
from rag_assay.evals.reporting.files import COLUMNS, json_rows
from rag_assay.evals.reporting.page import render_html
from tests.fakes.report_data import NDCG, SIMILARITY, report_data

LABELS: dict[str, str] = {}


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data(n_questions=24)


def test_a_row_is_recounted_from_the_stored_answers_and_scores(data: ReportData) -> None:
    found = risks(data, sorted(set(data.answers["cell"])), LABELS)
    assert found is not None
    assert found.metric == SIMILARITY, "the first metric of answers that is no rate of refusals or citations"
    row = found.rows[0]
    answers = data.answers.filter((pl.col("cell") == row.label) & (pl.col("status") == "ok"))
    values = data.scores.filter((pl.col("cell") == row.label) & (pl.col("metric") == SIMILARITY.name))
    joined = answers.join(values.drop_nulls("value"), on="question_id").sort("question_id")
    assert row.found.n == joined.height
    assert row.of_all == pytest.approx(float(np.mean(1 - joined["value"].to_numpy())))
    assert row.answered == pytest.approx(joined.height / data.answers.filter(cell=row.label).height)


def test_refused_and_failed_answers_are_not_on_the_curve(data: ReportData) -> None:
    cells = sorted(set(data.answers["cell"]))
    status = pl.when(pl.col("question_id") == pl.col("question_id").min()).then(pl.lit("refused"))
    refused = dataclasses.replace(data, answers=data.answers.with_columns(status=status.otherwise("status")))
    before, after = risks(data, cells, LABELS), risks(refused, cells, LABELS)
    assert before is not None
    assert after is not None
    assert after.rows[0].found.n == before.rows[0].found.n - 1
    assert after.rows[0].answered < before.rows[0].answered


def test_without_confidence_or_a_metric_of_answers_there_is_none(data: ReportData) -> None:
    cells = sorted(set(data.answers["cell"]))
    unsure = dataclasses.replace(data, answers=data.answers.with_columns(confidence=pl.lit(None, pl.Float64)))
    assert risks(unsure, cells, LABELS) is None
    assert risk_rows(unsure) == []
    assert 'id="risk"' not in render_html(unsure)
    only_ranked = dataclasses.replace(data, metrics=(NDCG,))
    assert risks(only_ranked, cells, LABELS) is None
    assert risk_rows(only_ranked) == []


def test_the_rows_stand_beside_the_leaderboards(data: ReportData) -> None:
    rows = json.loads(json_rows(data.leaderboard, risk_rows(data)))
    found = [row for row in rows if row["metric"] == "risk_coverage:semantic_similarity"]
    assert len(found) == len(set(data.answers["cell"]))
    assert all(tuple(row) == COLUMNS for row in rows)
    assert all(row["low"] <= row["value"] <= row["high"] for row in found)
    assert all(row["rank"] is None for row in found), "it ranks nothing"


def test_hostile_names_stay_text(data: ReportData) -> None:
    evil = "<script>alert(1)</script>"
    found = risks(data, sorted(set(data.answers["cell"])), dict.fromkeys(set(data.answers["cell"]), evil))
    assert found is not None
    assert found.rows[0].label == evil
    assert "<polyline" in render_html(data)

"""Risk-coverage curves of a report: of which answers, by which metric, and where there are none."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import percent
from rag_assay.evals.reporting.figures.planes import risk_rows, risk_section
from rag_assay.evals.reporting.page import COLUMNS, json_rows, render_html
from rag_assay.evals.reporting.sections import Table
from tests.fakes.report_data import NDCG, SIMILARITY, report_data

LABELS: dict[str, str] = {}


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data(n_questions=24)


def rows(data: ReportData, labels: dict[str, str] | None = None) -> list[list[str]]:
    """Return the texts of the section's table, with their small lines."""
    found = risk_section(data, sorted(set(data.answers["cell"])), labels or LABELS)
    assert found is not None
    about, table = found.blocks
    assert SIMILARITY.title in str(about), (
        "the first metric of answers that is no rate of refusals or citations"
    )
    assert isinstance(table, Table)
    return [
        [one if isinstance(one, str) else " ".join((one.text, *one.small)) for one in row]
        for row in table.rows
    ]


def test_a_row_is_recounted_from_the_stored_answers_and_scores(data: ReportData) -> None:
    cell, _, _, _, of_all, answered = rows(data)[0]
    answers = data.answers.filter((pl.col("cell") == cell) & (pl.col("status") == "ok"))
    values = data.scores.filter((pl.col("cell") == cell) & (pl.col("metric") == SIMILARITY.name))
    joined = answers.join(values.drop_nulls("value"), on="question_id").sort("question_id")
    assert float(of_all) == pytest.approx(float(np.mean(1 - joined["value"].to_numpy())), abs=0.0006)
    share = joined.height / data.answers.filter(cell=cell).height
    assert answered == f"{percent(share)} n = {joined.height}"


def test_refused_and_failed_answers_are_not_on_the_curve(data: ReportData) -> None:
    status = pl.when(pl.col("question_id") == pl.col("question_id").min()).then(pl.lit("refused"))
    refused = dataclasses.replace(data, answers=data.answers.with_columns(status=status.otherwise("status")))
    before, after = (int(rows(one)[0][-1].rpartition(" ")[2]) for one in (data, refused))
    assert after == before - 1


def test_without_confidence_or_a_metric_of_answers_there_is_none(data: ReportData) -> None:
    cells = sorted(set(data.answers["cell"]))
    unsure = dataclasses.replace(data, answers=data.answers.with_columns(confidence=pl.lit(None, pl.Float64)))
    assert risk_section(unsure, cells, LABELS) is None
    assert risk_rows(unsure) == []
    assert 'id="risk"' not in render_html(unsure)
    only_ranked = dataclasses.replace(data, metrics=(NDCG,))
    assert risk_section(only_ranked, cells, LABELS) is None
    assert risk_rows(only_ranked) == []


def test_the_rows_stand_beside_the_leaderboards(data: ReportData) -> None:
    written = json.loads(json_rows(data.leaderboard, risk_rows(data)))
    found = [row for row in written if row["metric"] == "risk_coverage:semantic_similarity"]
    assert len(found) == len(set(data.answers["cell"]))
    assert all(tuple(row) == COLUMNS for row in written)
    assert all(row["low"] <= row["value"] <= row["high"] for row in found)
    assert all(row["rank"] is None for row in found), "it ranks nothing"


def test_hostile_names_stay_text(data: ReportData) -> None:
    evil = "<script>alert(1)</script>"
    assert rows(data, dict.fromkeys(set(data.answers["cell"]), evil))[0][0] == evil
    assert "<polyline" in render_html(data)

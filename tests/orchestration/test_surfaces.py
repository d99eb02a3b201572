"""Every surface says the same of one study: the same cell, rank, value and coverage."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from statistics import fmean

import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline import stage_inputs
from rag_assay.evals.reporting.changes.results import entries_of
from rag_assay.evals.reporting.display import interval, number
from rag_assay.evals.reporting.exports import export_table
from rag_assay.evals.reporting.page import render_html, render_sections
from rag_assay.evals.reporting.pair_comparison import bases, compare_pair, intervals_of
from rag_assay.evals.reporting.question_matrix import MatrixFilter, QuestionMatrix
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.sections import PageSection
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.reporting.trust import trust_lines
from rag_assay.evals.statistics.verdict import Verdict
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.cell_selection import recommended_cell
from rag_assay.orchestration.web.chat.catalogue import read_catalogue
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.connection import connect
from tests.fakes.commands import assay
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models


@pytest.fixture
def verdict(finished: Finished) -> Verdict:
    found = stored_result(read_study(finished.path), finished.home).verdict
    assert found.leader is not None
    assert found.recommended is not None
    return found


def test_programs_read_the_verdict(finished: Finished, verdict: Verdict) -> None:
    by_command = json.loads(assay("verdict", str(finished.path), "--format", "json").stdout)
    assert by_command == json.loads(json.dumps(verdict.row()))
    assert by_command["recommended"]["expected_loss"] is not None
    assert {"leader", "recommended", "margin"} <= by_command.keys()
    rows = json.loads(assay("report", str(finished.path), "--format", "json").stdout)
    (of_report,) = [row for row in rows if row["metric"] == "verdict"]
    assert of_report["recommended"] == by_command["recommended"]
    with connect(finished.home.database) as connection:
        (stored,) = connection.execute(
            "SELECT leader.cell, leader.value, recommended.cell, recommended.coverage, sentences "
            "FROM current_verdict"
        ).fetchall()
    first, taken = verdict.leader, verdict.recommended
    assert first is not None
    assert taken is not None
    assert stored == (first.cell, first.value, taken.cell, taken.coverage, list(verdict.sentences))


def test_people_read_the_verdict(finished: Finished, verdict: Verdict) -> None:
    said = " ".join(verdict.sentences)
    assert assay("verdict", str(finished.path)).stdout.split() == said.split()
    study = read_study(finished.path)
    page = unescape(render_html(report_data(study, finished.home))).replace("<wbr>", "")
    markdown = assay("report", str(finished.path), "--format", "markdown").stdout.replace("\\", "")
    for sentence in verdict.sentences:
        assert sentence in page
        assert sentence in markdown
    shown = assay("run", str(finished.path)).stdout
    assert shown.split()[-len(said.split()) :] == said.split()
    meta = ArtifactStore(finished.home).current("leaderboard", study.study).meta  # type: ignore[union-attr]
    assert meta["verdict"] == said
    assert meta["recommended"] == verdict.recommended.cell  # type: ignore[union-attr]
    last = entries_of(finished.home, study.study)[-1]
    assert last.leader == verdict.leader.cell  # type: ignore[union-attr]


def test_every_row_has_the_rank_and_the_value_of_the_verdict(finished: Finished, verdict: Verdict) -> None:
    study = read_study(finished.path)
    data = report_data(study, finished.home, with_hits=False)
    table = export_table(data)
    for pick in (verdict.leader, verdict.recommended):
        assert pick is not None
        mine = {"cell": pick.cell, "metric": verdict.metric, "subset": verdict.subset}
        (row,) = table.filter(**mine).to_dicts()
        assert (row["rank"], row["value"], row["low"], row["high"], row["coverage"]) == (
            pick.rank,
            pick.value,
            pick.low,
            pick.high,
            pick.coverage,
        )


def test_the_app_shows_the_verdict_and_the_values_of_the_report(finished: Finished, verdict: Verdict) -> None:
    study = read_study(finished.path)
    data = report_data(study, finished.home, with_hits=False)
    matrix = QuestionMatrix(study, finished.home)
    assert matrix.data.verdict == verdict
    assert trust_lines(matrix.data) == trust_lines(data)
    taken, leader = verdict.recommended, verdict.leader
    assert taken is not None
    assert leader is not None
    assert next(iter(matrix.labels)) == taken.cell
    chart = intervals_of(matrix.data, data.primary, 12)
    assert chart is not None
    first = next(
        row for row, keys in zip(chart.rows, chart.row_pipelines, strict=True) if leader.cell in keys
    )
    html = render_sections([PageSection("chart", "Intervals", [chart])])
    for text in (number(leader.value), interval(leader.low, leader.high)):
        assert text in str(first)
        assert text in html
    assert {*bases(data).values()} <= {*data.metrics}
    wanted = MatrixFilter(verdict.metric, tuple(matrix.labels))
    ids = matrix.matching(wanted)
    rows = matrix.rows(wanted, ids)
    for at, cell in enumerate(wanted.pipelines):
        shown = [row.cells[at].value for row in rows if row.cells[at].value is not None]
        board = data.leaderboard.filter(cell=cell, metric=verdict.metric, subset=verdict.subset)
        assert fmean(shown) == pytest.approx(board["value"][0], abs=1e-12)
    for cell in (*verdict.tied, *verdict.worse):
        values = matrix.values(verdict.metric, (cell, leader.cell))
        found = compare_pair(matrix.data, data.primary, (cell, leader.cell), values, ids)
        board = data.leaderboard.filter(cell=cell, metric=verdict.metric, subset=verdict.subset)
        if board["p"][0] is not None:
            assert (found.difference, found.standing != "worse") == (
                board["difference"][0],
                cell in verdict.tied,
            )
        mean = fmean(values[one, cell] - values[one, leader.cell] for one in ids if (one, cell) in values)
        assert found.difference == pytest.approx(mean, abs=1e-12)


def test_what_answers_is_what_the_verdict_recommends(
    finished: Finished, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In the file, the question that is answered best comes first.
    read = stage_inputs.read_questions
    monkeypatch.setattr(stage_inputs, "read_questions", lambda *given: read(*given).reverse())
    taken = verdict.recommended
    assert taken is not None
    study = read_study(finished.path)
    assert recommended_cell(study, finished.home).key == taken.cell
    work = BuildContext(finished.home)
    try:
        catalogue = read_catalogue(str(finished.path), work)
    finally:
        work.close()
    chat = catalogue.choices[0]
    assert (chat.key, chat.rank, chat.mean, chat.of) == (
        taken.cell,
        taken.rank,
        taken.value,
        len(verdict.tied) + len(verdict.worse) + 1,
    )
    sql = "SELECT question_id, value FROM current_scores WHERE cell = ? AND metric = 'rouge_l' AND value > 0"
    with connect(finished.home.database) as connection:
        answered = connection.execute(f"{sql} ORDER BY value DESC", [chat.key]).fetchall()
    texts = {"q1": "What does a mooring cost in summer?", "q2": "How many cars fit on the ferry?"}
    assert [one.question for one in catalogue.examples] == [
        texts[name] for name, _ in answered if name in texts
    ]
    (asked,) = json.loads(
        assay("ask", str(finished.path), "Which retriever finds the ferry?", "--format", "json").stdout
    )
    assert asked["cell"] == taken.cell
    done = assay("export", str(finished.path), str(tmp_path / "best"))
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "best" / "verdict.json").read_text())
    assert written["exported"] == taken.cell
    assert written["recommended"]["cell"] == taken.cell

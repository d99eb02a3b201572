"""Which result a study had when: a line a change, whoever ran it, whatever was killed between."""

from __future__ import annotations

import csv
import io
import json

import dagster as dg

from rag_assay.evals.study.study import Study
from rag_assay.orchestration.automation import AFTER_SCORES
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.history import history_records
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.orchestration.conftest import Finished


def rows(home: Home) -> list[tuple[str, int, str]]:
    with connect(home.database) as connection:
        return connection.execute(
            'SELECT study, "number", leaderboard FROM history ORDER BY study, "number"'
        ).fetchall()


def test_a_line_a_change_and_none_for_an_unchanged_run(finished: Finished) -> None:
    path, home = str(finished.path), finished.home
    (first,) = history_records(home, "town")
    assert first["run"], "written by the run of Dagster that wrote the report, however that was started"
    assert first["sources"]["texts"]["documents"] == 3
    assert set(first["artifacts"]) == {"chunks", "questions", "rankings", "answers", "scores"}
    assert assay("run", path).returncode == 0
    assert history_records(home, "town") == [first]

    place = home.history("town")
    place.write_bytes(place.read_bytes()[:-40])  # killed while it wrote
    assert assay("run", path).returncode == 0
    (again,) = history_records(home, "town")
    assert {**again, "run": first["run"]} == first
    place.unlink()  # a home that was run before there were histories
    assert assay("run", path).returncode == 0
    assert [one["entry"] for one in history_records(home, "town")] == [first["entry"]]

    finished.edit("words: {bm25: {k: 5}}", "words: {bm25: {k: 1}}")
    assert assay("run", path).returncode == 0
    finished.edit("words: {bm25: {k: 1}}", "words: {bm25: {k: 5}}")
    assert assay("run", path).returncode == 0
    boards = [one["leaderboard"] for one in history_records(home, "town")]
    assert len(boards) == 3
    assert boards[0] == boards[2] != boards[1], "a result that comes back is a line of its own"
    stored = rows(home)
    assert stored == [("town", n, board) for n, board in enumerate(boards, 1)]
    home.database.unlink()
    assert assay("workspace", "rebuild").returncode == 0
    assert rows(home) == stored

    found = json.loads(assay("list", path, "--format", "json").stdout)
    assert [one["back"] for one in found] == [2, 1, 0]
    assert [one["recipes_changed"] for one in found] == [{}, *[{"changed": ["retriever words"]}] * 2]
    assert all(one["documents_changed"] == one["code_changed"] == {} for one in found)
    table = list(csv.DictReader(io.StringIO(assay("list", "town", "--format", "csv").stdout)))
    assert [one["leaderboard"] for one in table] == boards
    assert json.loads(table[1]["recipes_changed"]) == {"changed": ["retriever words"]}
    assert (
        assay("diff", "town", "town").stdout.splitlines()[-1] == "No differences: both are the same result."
    )
    assert "| 0 |" not in assay("diff", "town", "town", "--format", "markdown").stdout
    shown = assay("list", "town")
    assert "town has had 3 results" in shown.stdout
    assert "words | bm25.k: 1 → 5 |" in assay("list", "town", "--format", "markdown").stdout
    page = assay("list", "town", "--format", "html").stdout.strip()
    assert page == str(home.reports / "town-history.html")
    assert 'id="chart-history"' in (home.reports / "town-history.html").read_text()


def backfilled(study: Study, stage: str, instance: dg.DagsterInstance) -> str:
    """Materialize those of a stage's partitions that changed as a backfill of the UI does; return the run."""
    job = definitions_of([study]).resolve_implicit_global_asset_job_def()
    words = "town.t16.minilm.words"
    key = {"rankings": words, "answers": f"{words}.quote", "scores": f"{words}.quote"}.get(stage, "town")
    done = job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(stage)], partition_key=key)
    return done.run_id


def test_whatever_run_wrote_the_report_wrote_the_line_once(finished: Finished) -> None:
    """The job of a study, a backfill and the refresh of the Dagster UI each write what `assay run` does."""

    def runs() -> list[str]:
        return [one["run"] for one in history_records(finished.home, "town")]

    expected = runs()
    assert len(expected) == 1
    with dg.DagsterInstance.get() as instance:
        study = finished.edit("words: {bm25: {k: 5}}", "words: {bm25: {k: 4}}")
        job = definitions_of([study]).resolve_job_def("study_town")
        expected.append(job.execute_in_process(instance=instance).run_id)
        assert runs() == expected
        assert job.execute_in_process(instance=instance).success
        assert runs() == expected, "a run without a change"

        study = finished.edit("words: {bm25: {k: 4}}", "words: {bm25: {k: 3}}")
        for stage in ("rankings", "answers", "scores", "leaderboard"):
            backfilled(study, stage, instance)
        assert runs() == expected, "the report shows the result before"
        expected.append(backfilled(study, "report", instance))
        assert runs() == expected

        study = finished.edit("words: {bm25: {k: 3}}", "words: {bm25: {k: 2}}")
        for stage in ("rankings", "answers"):
            backfilled(study, stage, instance)
        job = definitions_of([study]).resolve_job_def("study_town")
        done = job.execute_in_process(run_config={"stages": list(AFTER_SCORES)}, instance=instance)
        expected.append(done.run_id)
        assert runs() == expected
        backfilled(study, "report", instance)
    assert Driver(study, finished.home).run().unchanged
    assert runs() == expected
    stored = [number for _, number, _ in rows(finished.home)]
    assert stored == [1, 2, 3, 4]
    finished.home.history("town").unlink()
    Driver(study, finished.home).run()
    (line,) = history_records(finished.home, "town")
    assert rows(finished.home) == [("town", 1, line["leaderboard"])], "results that no file holds are no rows"


def test_a_study_without_a_history_is_told_so(finished: Finished) -> None:
    finished.home.history("town").unlink()
    done = assay("list", str(finished.path))
    assert done.returncode == 2
    assert "town has no history yet; `assay run" in done.stderr
    assert "did you mean" in assay("list", "demmo").stderr

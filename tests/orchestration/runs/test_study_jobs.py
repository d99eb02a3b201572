"""The job of a study: one Dagster run that gives what `assay run` gives, and leaves what is good."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from rag_assay.assets.engine.definition import RunOptions, failed_keys
from rag_assay.assets.engine.stage import BuildContext, BuildResult, KeyOutcome, Stage
from rag_assay.evals.answers import Answers
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.successive_halving.records import KEPT, narrow_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.runs import home_lock
from rag_assay.orchestration.runs import run as study_run
from rag_assay.orchestration.runs.jobs import study_job
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home, home
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models


def launch(
    study: Study, *others: Study, again: bool = False, stages: tuple[str, ...] = ()
) -> dg.ExecuteInProcessResult:
    """Start the job of a study as the UI does."""
    name = f"study_{study.study.replace('-', '_')}"
    job = definitions_of([study, *others]).resolve_job_def(name)
    with dg.DagsterInstance.get() as instance:
        return job.execute_in_process(
            run_config={"again": again},
            op_selection=list(stages) or None,
            instance=instance,
            raise_on_error=False,
        )


def failures_of(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """Return by the names of the failed steps what they say."""
    failed = [one for one in result.all_events if one.is_step_failure]
    said = {str(one.step_key): one.step_failure_data.user_failure_data for one in failed}
    return {step: str(data and data.description) for step, data in said.items()}


def grid_of(study: Study, stage: str) -> dict[str, set[str]]:
    """Return what the UI shows of an asset: partitions that are materialized, and that failed to be built."""
    key = dg.AssetKey(stage)
    with dg.DagsterInstance.get() as instance:
        failed = failed_keys(stages_of(Grid([study]))[stage], instance)
        return {"good": instance.get_materialized_partitions(key), "failed": failed}


STEPS = (
    *("pages", "documents", "chunks", "embeddings", "indexes", "questions", "rankings", "answers", "scores"),
    *("leaderboard", "report"),
)


def town_job() -> dg.JobDefinition:
    """Return the job of the study on the workspace of a test, as a process that runs it makes it."""
    return study_job(read_study(home().root.parent / "town.yaml"), "town")


COMPARED = (
    "SELECT ranking, question_id, rank, round(score, 4) FROM current_hits",
    "SELECT cell, question_id, status, answer FROM current_answers",
    "SELECT cell, question_id, metric, status, value FROM current_scores",
    "SELECT cell, metric, subset, value, low, high, n, coverage, rank FROM current_leaderboard",
)


def current(home: Home) -> list[list[tuple[object, ...]]]:
    """Return the rows that a report is made of, without times."""
    with connect(home.database) as connection:
        found = [connection.execute(f"{query} ORDER BY ALL").fetchall() for query in COMPARED]
    assert all(found)
    return found


def test_one_run_gives_the_rows_of_the_command_and_again_has_nothing_to_do(
    finished: Finished, study_path: Path, assay_home: Home
) -> None:
    study = read_study(study_path)
    done = launch(study)
    assert done.success
    assert current(assay_home) == current(finished.home)
    with dg.DagsterInstance.get() as instance:
        (run,) = instance.get_runs()
        assert run.tags["assay/study"] == "town"
    for stage, keys in {"answers": study.runs(), "rankings": study.rankings()}.items():
        assert len(grid_of(study, stage)["good"]) == len(keys)
    assert Driver(study, assay_home).run().unchanged, "the command finds what the job did"
    second = launch(study)
    assert second.success
    assert not [event for event in second.all_events if event.is_step_materialization]
    crawled = launch(study, again=True, stages=("pages", "documents"))
    found = [event.asset_key for event in crawled.all_events if event.is_step_materialization]
    assert found == [dg.AssetKey("pages")], "an unchanged crawl leaves its documents as they are"


def test_a_failed_cell_is_red_the_good_ones_are_there_and_a_second_run_does_what_is_left(
    assay_home: Home, study_path: Path, edit: Callable[[str, str], Study]
) -> None:
    library = study_path.parent / "texts" / "library.txt"
    library.write_text(library.read_text() * 30)
    study = edit("  t16:", "  t400: {tokens: {size: 400}}\n  t16:")
    result = launch(study)
    why = failures_of(result)
    assert set(why) == {"embeddings", "indexes", "rankings", "answers", "scores", "leaderboard", "report"}
    assert "1 of 2 embeddings failed:\n- town.t400.minilm: " in why["embeddings"]
    assert "longer than the 256 tokens" in why["embeddings"]
    assert why["answers"] == "2 of 4 answers were left out: what they need failed"
    assert (
        why["leaderboard"]
        == "leaderboard is built with gaps, for some scores, answers failed or were left out"
    )
    assert grid_of(study, "embeddings") == {"good": {"town.t16.minilm"}, "failed": {"town.t400.minilm"}}
    assert grid_of(study, "leaderboard") == {"good": {"town"}, "failed": set()}, "the others are compared"
    values = "SELECT chunking, n, coverage, count(value), max(rank) FROM current_leaderboard "
    values += "WHERE metric = 'ndcg@10' GROUP BY ALL ORDER BY 1"
    with connect(assay_home.database) as connection:
        found = connection.execute(values).fetchall()
    assert found == [("t16", 2, 1.0, 2, 1), ("t400", 2, 0.0, 0, None)], "cells that failed have no values"
    report = Driver(study, assay_home).run()
    stages = {stage.stage: stage for stage in report.stages}
    assert not report.ok
    assert not any(stage.built for stage in report.stages), "what fails again is all that is tried"
    assert "longer than the 256 tokens" in stages["embeddings"].failed["town.t400.minilm"]
    assert set(stages["scores"].left_out) == {
        f"town.t400.minilm.{name}.quote" for name in ("words", "meaning")
    }
    mended = edit("max_tokens: 256", "max_tokens: 512")
    assert launch(mended).success
    with connect(assay_home.database) as connection:
        assert [row[:4] for row in connection.execute(values).fetchall()][1] == ("t400", 2, 1.0, 2)
    assert grid_of(mended, "embeddings")["failed"] == set()
    assert grid_of(mended, "answers") == {"good": {cell.key for cell in mended.runs()}, "failed": set()}


def built_in(result: dg.ExecuteInProcessResult | dg.JobExecutionResult) -> dict[str, set[str]]:
    """Return the partitions that a run has materialized, by asset."""
    found: dict[str, set[str]] = {}
    with dg.DagsterInstance.get() as instance:
        for one in instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
            event = one.get_dagster_event()
            found.setdefault(str(event.asset_key and event.asset_key.to_user_string()), set()).add(
                str(event.partition)
            )
    return found


def test_each_stage_is_a_step_in_order_and_a_retry_from_failure_builds_the_rest_alone(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = finished.edit(
        "generators:\n", "generators:\n  short: {extractive: {passages: 1, max_tokens: 20}}\n"
    )
    broken, build = "town.t16.minilm.words.short", Answers.build

    def fails(self: Answers, key: str, folder: Path, work: BuildContext) -> BuildResult:
        if key == broken:
            raise AssayError("the server is gone")
        return build(self, key, folder, work)

    monkeypatch.setattr(Answers, "build", fails)
    first = launch(study)
    starts = [one for one in first.all_events if one.event_type is dg.DagsterEventType.STEP_START]
    assert tuple(str(one.step_key) for one in starts) == STEPS
    assert set(failures_of(first)) == {"answers", "scores", "leaderboard", "report"}
    assert f"- {broken}: the server is gone" in failures_of(first)["answers"]
    good = {cell.key for cell in study.runs()} - {broken}
    new = {"town.t16.minilm.meaning.short"}
    assert {stage: built_in(first)[stage] for stage in ("answers", "scores")} == {
        "answers": new,
        "scores": new,
    }
    monkeypatch.setattr(Answers, "build", build)
    job = dg.reconstructable(town_job)
    with dg.DagsterInstance.get() as instance:
        options = dg.ReexecutionOptions.from_failure(first.run_id, instance)
        with dg.execute_job(job, instance, reexecution_options=options) as second:
            assert second.success
            steps = {str(one.step_key) for one in second.all_events if one.step_key}
            built = built_in(second)
    assert steps == {"answers", "scores", "leaderboard", "report"}
    assert built == {
        "answers": {broken},
        "scores": {broken},
        "leaderboard": {"town"},
        "verdict": {"town"},
        "report": {"town"},
    }
    assert grid_of(study, "answers") == {"good": {*good, broken}, "failed": set()}
    assert Driver(study, finished.home).run().unchanged


def test_a_stage_that_there_is_none_of_is_refused(finished: Finished) -> None:
    job = definitions_of([read_study(finished.path)]).resolve_job_def("study_town")
    with pytest.raises(dg.DagsterInvalidConfigError, match="score"):
        job.execute_in_process(run_config={"stages": ["score"]})


def test_the_job_of_a_study_with_a_search_runs_that_first(finished: Finished) -> None:
    study = finished.edit("metrics:", "search: {method: random, budget: {cells: 1}}\nmetrics:")
    assert launch(narrow_study(study, finished.home)).success
    with connect(finished.home.database) as connection:
        found = connection.execute("SELECT cell, rule FROM current_searches ORDER BY cell").fetchall()
        compared = connection.execute("SELECT DISTINCT cell FROM current_leaderboard").fetchall()
    assert [rule for _, rule in found].count(KEPT) == len(compared) == 1
    assert len(found) == 2, "a cell that was not drawn is said"
    (left,) = narrow_study(study, finished.home).cells()
    assert compared == [(left.name,)]
    assert len(narrow_study(study, finished.home).narrowed(None).cells()) == 2


def test_a_home_that_is_in_use_is_waited_for_and_then_a_sentence(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = home_lock.alone
    monkeypatch.setattr(home_lock, "alone", lambda home, progress: alone(home, progress, patience=0.1))
    with (finished.home.root / "run.lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = launch(read_study(finished.path))
    said = failures_of(result)
    assert len(said) == len(STEPS), "no step waits once more"
    assert all("is in use by another run (process" in why for why in said.values())
    assert launch(read_study(finished.path)).success


def test_a_run_that_is_terminated_ends_in_good_order_and_the_next_goes_on(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The UI sends a SIGINT to the run's process; what was committed stays."""
    done = study_run.bring_up

    def stopped(
        stage: Stage, keys: list[str], context: dg.OpExecutionContext, options: RunOptions
    ) -> list[KeyOutcome]:
        outcomes = done(stage, keys, context, options)
        context.instance.report_run_canceling(context.run)
        os.kill(os.getpid(), signal.SIGINT)
        return outcomes

    study = finished.edit("words: {bm25: {k: 5}}", "words: {bm25: {k: 4}}")
    monkeypatch.setattr(study_run, "bring_up", stopped)
    job = definitions_of([study]).resolve_job_def("study_town")
    with dg.DagsterInstance.get() as instance:
        run = job.execute_in_process(instance=instance, raise_on_error=False).dagster_run
        assert run.status is dg.DagsterRunStatus.CANCELED
    monkeypatch.undo()
    monkeypatch.setenv("ASSAY_HOME", str(finished.home.root))
    monkeypatch.setenv("DAGSTER_HOME", str(finished.home.dagster))
    report = Driver(study, finished.home).run()
    assert report.ok
    assert {stage.stage: stage.built for stage in report.stages if stage.built}.keys() == {
        "answers",
        "scores",
        "leaderboard",
        "report",
    }, "the ranking was committed"


def test_jobs_of_names_that_differ_in_signs_only_are_told_apart(finished: Finished) -> None:
    text = finished.path.read_text()
    paths = [finished.path.with_name(f"{name}.yaml") for name in ("my-town", "my_town")]
    studies = []
    for path in paths:
        path.write_text(text.replace("study: town", f"study: {path.stem}"))
        studies.append(read_study(path))
        path.unlink()
    jobs = definitions_of(studies).get_repository_def().get_all_jobs()
    tags = {job.name: job.tags.get("assay/study") for job in jobs if job.name.startswith("study_")}
    assert sorted(str(one) for one in tags.values()) == ["my-town", "my_town"]

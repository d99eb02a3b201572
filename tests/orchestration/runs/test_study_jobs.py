"""The job of a study: one Dagster run that gives what `assay run` gives, and leaves what is good."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.partition_status_cache import get_partition_subsets

from rag_assay.assets.engine.definition import RunOptions
from rag_assay.assets.engine.stage import KeyOutcome, Stage
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.successive_halving.records import KEPT, narrow_study
from rag_assay.orchestration.definitions import definitions_of
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.runs import home_lock
from rag_assay.orchestration.runs import run as walk
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.paths import Home
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
            run_config={"again": again, "stages": list(stages)}, instance=instance, raise_on_error=False
        )


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [one for one in result.all_events if one.is_step_failure]
    data = event.step_failure_data
    assert data.user_failure_data is not None
    return str(data.user_failure_data.description)


def grid_of(study: Study, stage: str) -> dict[str, set[str]]:
    """Return what the UI's partition grid of an asset shows: materialized and failed partitions."""
    asset = definitions_of([study]).resolve_asset_graph().get(dg.AssetKey(stage))
    with dg.DagsterInstance.get() as instance:
        context = LoadingContextForTest(instance)
        subsets = get_partition_subsets(instance, context, asset.key, instance, asset.partitions_def)
        good, failed, _ = asyncio.run(subsets)
    assert good is not None
    assert failed is not None
    return {"good": set(good.get_partition_keys()), "failed": set(failed.get_partition_keys())}


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
    why = failure_of(result)
    assert "1 of 2 embeddings failed:\n- town.t400.minilm: " in why
    assert "longer than the 256 tokens" in why
    assert "2 of 4 answers were left out: what they need failed" in why
    assert grid_of(study, "embeddings") == {"good": {"town.t16.minilm"}, "failed": {"town.t400.minilm"}}
    assert grid_of(study, "leaderboard") == {"good": {"town"}, "failed": set()}, "the others are compared"
    again = launch(study)
    with dg.DagsterInstance.get() as instance:
        events = [one.dagster_event for one in instance.all_logs(again.run_id) if one.dagster_event]
    planned = [
        (str(one.asset_key and one.asset_key.to_user_string()), one.partition)
        for one in events
        if one.is_asset_materialization_planned
    ]
    assert planned[0] == ("embeddings", "town.t400.minilm")
    assert {key for _stage, key in planned} == {"town.t400.minilm"}, "a retry does what failed, nothing else"
    mended = edit("max_tokens: 256", "max_tokens: 512")
    assert launch(mended).success
    assert grid_of(mended, "embeddings")["failed"] == set()
    assert grid_of(mended, "answers") == {"good": {cell.key for cell in mended.runs()}, "failed": set()}


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
    assert len(narrow_study(study, finished.home).unsearched().cells()) == 2


def test_a_home_that_is_in_use_is_waited_for_and_then_a_sentence(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = home_lock.alone
    monkeypatch.setattr(home_lock, "alone", lambda home, progress: alone(home, progress, patience=0.1))
    with (finished.home.root / "run.lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = launch(read_study(finished.path))
    assert "is in use by another run (process" in failure_of(result)
    assert launch(read_study(finished.path)).success


def test_a_run_that_is_terminated_ends_in_good_order_and_the_next_goes_on(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The UI sends a SIGINT to the run's process; what was committed stays."""
    done = walk.bring_up

    def stopped(
        stage: Stage, keys: list[str], context: dg.OpExecutionContext, options: RunOptions
    ) -> list[KeyOutcome]:
        outcomes = done(stage, keys, context, options)
        context.instance.report_run_canceling(context.run)
        os.kill(os.getpid(), signal.SIGINT)
        return outcomes

    study = finished.edit("words: {bm25: {k: 5}}", "words: {bm25: {k: 4}}")
    monkeypatch.setattr(walk, "bring_up", stopped)
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

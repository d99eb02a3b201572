"""Runs that Dagster launches for a driver: the same rows, other code refused, lost workers noticed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from rag_assay.assets.engine.definition import RunOptions
from rag_assay.assets.engine.stage import KeyOutcome, Stage
from rag_assay.assets.engine.submission import (
    ALIVE_TAG,
    SPENT_TAG,
    SUBMITTED_TAG,
    Submission,
    budgets_of,
    current_code,
    recipes_of,
    refuse_other,
)
from rag_assay.assets.pages import Pages
from rag_assay.assets.recipes.build_half import Build
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import note
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.names import WORKSPACE_TAG
from rag_assay.orchestration.runs.home_lock import close_dead_runs, workspace_tag
from rag_assay.orchestration.runs.remote_runner import SubmittedRunner
from rag_assay.orchestration.runs.run import Spread
from rag_assay.orchestration.runs.run_monitor import (
    RETRY_OF,
    WILL_RETRY,
    Patience,
    RunMonitor,
    close_lost_runs,
)
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.budget import Amount, Caps
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from tests.drill.trial import differences, rows_of, write_rows
from tests.orchestration.conftest import Finished

LAUNCHES_AT_ONCE = "run_coordinator: {module: dagster.core.run_coordinator, class: DefaultRunCoordinator}\n"
Status = dg.DagsterRunStatus


@pytest.mark.models
def test_runs_that_dagster_launches_give_the_rows_of_one_process(finished: Finished, tmp_path: Path) -> None:
    """One retriever more: only its ranking and its answers are built away, the rest is up to date."""
    root = finished.home.root
    shutil.copytree(root, tmp_path / "before")
    with (finished.home.dagster / "dagster.yaml").open("a") as file:
        file.write(LAUNCHES_AT_ONCE)
    study = finished.edit("  meaning:", "  few: {bm25: {k: 2}}\n  meaning:")
    note(study, finished.home)
    report = Driver(study, finished.home, spread=Spread(partitions=5)).run()
    assert report.ok, report
    counts = {one.stage: one.built for one in report.stages}
    assert (counts["rankings"], counts["answers"]) == (1, 1)
    with dg.DagsterInstance.get() as instance:
        away = [run for run in instance.get_runs() if SUBMITTED_TAG in run.tags]
        assert [(run.status, WORKSPACE_TAG in run.tags, ALIVE_TAG in run.tags) for run in away] == [
            (Status.SUCCESS, False, True)
        ] * 2
    assert Driver(study, finished.home, spread=Spread()).run().unchanged
    found = _rows(finished.home)
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "before", root)
    assert Driver(study, finished.home).run().ok
    assert not differences(found, _rows(finished.home))


def _rows(home: Home) -> dict[str, list[str]]:
    write_rows(home.root)
    return rows_of(home.root)


@pytest.fixture
def rankings(finished: Finished) -> Stage:
    return stages_of(Grid([read_study(finished.path)]))["rankings"]


@pytest.mark.models
def test_other_code_and_other_recipes_are_refused(rankings: Stage) -> None:
    keys = rankings.keys()
    meant = Submission(current_code(), recipes_of(rankings, keys))
    refuse_other(meant, rankings, keys)
    with pytest.raises(AssayError, match="another version of rag-assay"):
        refuse_other(replace(meant, code="older"), rankings, keys)
    with pytest.raises(AssayError, match="has it otherwise"):
        refuse_other(replace(meant, recipes="older"), rankings, keys)
    with pytest.raises(AssayError, match="does not know rankings of nothing"):
        refuse_other(meant, rankings, [*keys, "nothing"])


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        yield found


def test_sources_that_share_a_host_are_crawled_by_one_run_after_another(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = {"a": "https://a.example/x", "b": "https://a.example/y", "c": "https://c.example/"}
    sources = {name: Source(spider="news", start=(start,)) for name, start in starts.items()}
    stage = Pages(Build(sources={**sources, "d": Source(spider="news", start=("https://d.example/",))}))
    waves: list[tuple[list[list[str]], int]] = []

    def submitted(*given: object, **_: object) -> Iterator[KeyOutcome]:
        _, _, parts, _, at_once = given
        waves.append((parts, at_once))  # type: ignore[arg-type]
        return iter(())

    monkeypatch.setattr(SubmittedRunner, "_waves", submitted)
    monkeypatch.setattr(SubmittedRunner, "_order", lambda *_: stage.keys())
    runner = SubmittedRunner(Home(tmp_path), instance, {})
    runner._built_away(stage, stage.keys(), RunOptions())
    assert waves == [([["c"], ["d"]], 2), ([["a"], ["b"]], 1)]


def test_workers_spend_their_parts_and_a_retry_what_is_left_of_one(instance: dg.DagsterInstance) -> None:
    whole, meant = Caps(usd=9.0, calls=21), Submission("c", "r", share=0.5, spent={'"news"': Amount(1, 0, 1)})
    run = instance.create_run_for_job(_job(), status=Status.STARTED, tags={SUBMITTED_TAG: meant.tag()})
    assert budgets_of(meant, instance, run).of("news", whole).caps == Caps(usd=4.0, calls=10)
    assert budgets_of(meant, instance, run).of("others", whole).caps == Caps(usd=4.5, calls=10)
    instance.add_run_tags(run.run_id, {SPENT_TAG: '{"\\"news\\"": [1.5, 0, 4]}'})
    again = instance.create_run_for_job(_job(), parent_run_id=run.run_id, root_run_id=run.run_id)
    assert budgets_of(meant, instance, again).of("news", whole).caps == Caps(usd=2.5, calls=6)


def test_killed_runs_of_a_workspace_are_closed_and_others_left(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    here = workspace_tag(Home(tmp_path))
    kinds = {
        "ours": here,
        "another workspace": workspace_tag(Home(tmp_path / "other")),
        "another machine": {WORKSPACE_TAG: f"other:{tmp_path}"},
        "another project": {},
    }
    runs = {
        name: instance.create_run_for_job(_job(), status=Status.STARTED, tags=tags).run_id
        for name, tags in kinds.items()
    }
    assert close_dead_runs(instance, Home(tmp_path)) == 1
    found = {name: instance.get_run_by_id(run_id) for name, run_id in runs.items()}
    failed = [name for name, run in found.items() if run and run.status is Status.FAILURE]
    assert failed == ["ours"]


def _job() -> dg.JobDefinition:
    @dg.op
    def nothing() -> None: ...

    @dg.job
    def work() -> None:
        nothing()

    return work


class Clock:
    def __init__(self) -> None:
        self.time = time.time()

    def __call__(self) -> float:
        self.time += 10
        return self.time


def waiting_for(instance: dg.DagsterInstance, status: Status, **tags: str) -> tuple[RunMonitor, str]:
    run = instance.create_run_for_job(_job(), status=status, tags=tags)
    waiting = RunMonitor(instance, Patience(look=0), Clock())
    waiting.add(run.run_id, ["a", "b"])
    return waiting, run.run_id


def test_a_run_whose_worker_is_silent_is_lost_and_says_so(instance: dg.DagsterInstance) -> None:
    waiting, run_id = waiting_for(instance, Status.STARTED, **{ALIVE_TAG: f"{time.time():.0f}"})
    (ended,) = waiting.ended()
    assert (ended.run.run_id, ended.keys) == (run_id, ("a", "b"))
    assert "no heartbeat from its worker for 120 s" in str(ended.why)


def test_the_retry_of_a_run_is_waited_for_in_its_place(instance: dg.DagsterInstance) -> None:
    waiting, run_id = waiting_for(instance, Status.FAILURE, **{WILL_RETRY: "true"})
    retry = instance.create_run_for_job(_job(), status=Status.SUCCESS, tags={RETRY_OF: run_id})
    (ended,) = waiting.ended()
    assert (ended.run.run_id, ended.why) == (retry.run_id, None)
    assert [run.run_id for run in ended.runs] == [run_id, retry.run_id]


def test_a_retry_that_never_comes_is_not_waited_for_for_ever(instance: dg.DagsterInstance) -> None:
    waiting, run_id = waiting_for(instance, Status.FAILURE, **{WILL_RETRY: "true"})
    (ended,) = waiting.ended()
    assert (ended.run.run_id, ended.why) == (run_id, "its run failed")


def test_where_nobody_launches_runs_a_sentence_says_what_to_start(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, run_id = waiting_for(instance, Status.NOT_STARTED)
    monkeypatch.setattr(RunMonitor, "_is_launching", lambda _self: False)
    with pytest.raises(AssayError, match="Start `dagster-daemon run"):
        list(waiting.ended())
    waiting.cancel()
    run = instance.get_run_by_id(run_id)
    assert run is not None
    assert run.status is Status.CANCELED


def test_runs_that_nobody_waits_for_and_whose_workers_are_gone_are_closed(
    instance: dg.DagsterInstance,
) -> None:
    now = time.time()
    kinds = {"gone": now - 200, "working": now - 20}
    runs = {
        name: instance.create_run_for_job(
            _job(), status=Status.STARTED, tags={SUBMITTED_TAG: "{}", ALIVE_TAG: f"{alive:.0f}"}
        ).run_id
        for name, alive in kinds.items()
    }
    assert close_lost_runs(instance) == 1
    found = {name: instance.get_run_by_id(run_id) for name, run_id in runs.items()}
    assert {name: run.status for name, run in found.items() if run} == {
        "gone": Status.FAILURE,
        "working": Status.STARTED,
    }


def test_a_run_that_could_not_be_launched_says_why(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(_context: object) -> None:
        try:
            raise ConnectionRefusedError("Connection refused by redis")
        except OSError as error:
            raise RuntimeError("retries are used up") from error

    waiting, run_id = waiting_for(instance, Status.NOT_STARTED)
    monkeypatch.setattr(instance.run_launcher, "launch_run", launch)
    with pytest.raises(RuntimeError, match="used up"):
        instance.launch_run(run_id, workspace=None)  # type: ignore[arg-type]
    (ended,) = waiting.ended()
    assert "could not launch its run (ConnectionRefusedError: Connection refused by redis)" in str(ended.why)


def test_a_run_that_is_deleted_meanwhile_is_named(instance: dg.DagsterInstance) -> None:
    waiting, run_id = waiting_for(instance, Status.STARTED)
    instance.delete_run(run_id)
    with pytest.raises(AssayError, match=f"the run {run_id} was deleted"):
        list(waiting.ended())

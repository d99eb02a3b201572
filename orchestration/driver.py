"""Walks the asset graph of a study: one Dagster run a stage, in this process, over what is not up to date."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import dagster as dg

from assets.engine.building import checks_of
from assets.engine.definition import RECIPES, RunOptions, as_asset, recipe_versions, sync_all, sync_records
from assets.engine.stage import Need, Outcome, Progress, Stage, Work, blocked_by
from evals.study.grid import Grid
from evals.study.study import Study
from orchestration.definitions import stages_of
from orchestration.event_log import opened_instance, plain_failures, shared_engines
from orchestration.interrupts import noted_interrupts
from orchestration.run_history import prune
from orchestration.run_report import RunReport, StageReport, failure_notes
from orchestration.terminal.outcome_sentences import outcome_sentences
from warehouse.artifacts import Artifact
from warehouse.errors import LockedError
from warehouse.inference.budget import Budgets
from warehouse.leftovers import marked
from warehouse.paths import Home

PID_TAG = "assay/pid"
log = logging.getLogger(__name__)


class Watch(Protocol):
    """Hears when the stages of a walk begin and end."""

    def begin(self, stage: str, number: int, of: int) -> None:
        """Hear that a stage begins, the ``number``-th ``of`` so many."""

    def end(self, report: StageReport) -> None:
        """Hear what came of the stage that began last."""


class Driver:
    """Brings the assets of one study up to date.

    Args:
        study: the study.
        home: the prepared home folder; `DAGSTER_HOME` lies in it.
        progress: hears (label, done, of); `of` 0 means a sentence without a count.
        watch: hears of the stages.
    """

    def __init__(
        self,
        study: Study,
        home: Home,
        progress: Progress = lambda _label, _done, _of: None,
        watch: Watch | None = None,
    ) -> None:
        self.study = study
        self.home = home
        self.progress = progress
        self.watch = watch
        self.stages = stages_of(Grid([study]))
        self.options = RunOptions(progress=progress)
        self._reports: dict[str, StageReport] = {}
        self._gone: dict[
            tuple[str, str], str
        ] = {}  # (stage, key) that failed or was left out -> the root of it

    def run(
        self, only: Sequence[str] | None = None, *, again: bool = False, keys: Sequence[str] | None = None
    ) -> RunReport:
        """Walk the stages (or ``only`` some, or only some ``keys`` of them); ``again`` crawls again."""
        begin = time.perf_counter()
        report = RunReport()
        self._reports, self._gone = {}, {}
        self.options.budgets = Budgets()  # a budget is what one run may spend
        self.options.sound = set()  # what is damaged between two runs is found by the second
        with (
            noted_interrupts() as interrupted,
            alone(self.home, self.progress),
            marked(self.home),
            plain_failures(self.home.dagster),
            shared_engines(),
            opened_instance(self.home.dagster) as instance,
        ):
            close_dead_runs(instance)
            self._sync()
            self._observe_recipes(instance)
            walked = [
                one for one in self.stages.values() if (only is None or one.name in only) and one.keys()
            ]
            for number, stage in enumerate(walked, start=1):
                wanted = [key for key in stage.keys() if keys is None or key in keys]
                if self.watch:
                    self.watch.begin(stage.name, number, len(walked))
                report.stages.append(self._stage(stage, wanted, instance, again=again))
                if self.watch:
                    self.watch.end(report.stages[-1])
                if interrupted():
                    raise KeyboardInterrupt
            if not report.unchanged:
                self._sync()
            prune(instance)
        report.seconds = time.perf_counter() - begin
        return report

    def _stage(
        self, stage: Stage, keys: list[str], instance: dg.DagsterInstance, *, again: bool
    ) -> StageReport:
        begin = time.perf_counter()
        report = self._reports[stage.name] = StageReport(stage.name, len(keys), names=tuple(keys))
        known = _known_to_dagster(stage, instance)
        stale = []
        store = Work(self.home).store
        if stage.tolerates_gaps:
            stage.without = frozenset(Need(*gone) for gone in self._gone)
            stage.failures = failure_notes(self._reports.values())
        for key in keys:
            root = next((self._gone[need] for need in stage.needs(key) if need in self._gone), None)
            if root is None and stage.without and not stage.needs(key):
                root = next(iter(self._gone.values()))
            artifact = stage.fresh(key, store)
            if root is not None:
                report.left_out[key] = root
                self._gone[(stage.name, key)] = root
            elif artifact and _is_known(stage, artifact, known.get(key), again=again):
                report.fresh += 1
            else:
                stale.append(key)
        if stale:
            self._execute(stage, stale, instance, report, again=again)
        report.seconds = time.perf_counter() - begin
        return report

    def _execute(
        self, stage: Stage, keys: list[str], instance: dg.DagsterInstance, report: StageReport, *, again: bool
    ) -> None:
        outcomes: dict[str, Outcome] = {}
        runs = [[key] for key in keys] if stage.crawls else [keys]
        for number, part in enumerate(runs):
            if stage.crawls:
                self.progress(stage.name, number, len(runs))
            self.options.again = again
            why = self._run(stage, part, instance, outcomes)
            why = self._mended(stage, outcomes, instance) or why
            for key in part:
                self._record(stage, key, outcomes.get(key), report, why)
        self.progress(stage.name, len(runs), len(runs))

    def _mended(self, stage: Stage, outcomes: dict[str, Outcome], instance: dg.DagsterInstance) -> str:
        """Build again what is damaged, and then the keys that need it; return why their run failed, if so."""
        waiting = [key for key, outcome in outcomes.items() if outcome.damaged]
        if not waiting:
            return ""
        damaged = {need for key in waiting for need in outcomes[key].damaged}
        for name, upstream in self.stages.items():
            keys = sorted(need.key for need in damaged if need.stage == name)
            if keys:
                report = self._reports.setdefault(name, StageReport(name, len(upstream.keys())))
                report.fresh = max(0, report.fresh - len(keys))
                self._execute(upstream, keys, instance, report, again=False)
        return self._run(stage, waiting, instance, outcomes)

    def _run(
        self, stage: Stage, keys: list[str], instance: dg.DagsterInstance, outcomes: dict[str, Outcome]
    ) -> str:
        """Execute one Dagster run over just these keys, noting how each ended; return why it failed."""
        self.options.report = lambda outcome: outcomes.__setitem__(outcome.key, outcome)
        wanted = dg.Definitions(assets=[as_asset(stage, None, keys)], resources={"options": self.options})
        partitions = (
            {"dagster/partition": keys[0]}
            if stage.crawls
            else {
                "dagster/asset_partition_range_start": keys[0],
                "dagster/asset_partition_range_end": keys[-1],
            }
        )
        with _quiet():
            result = wanted.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey(stage.name)],
                raise_on_error=False,
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                tags={**partitions, "assay/study": self.study.study, PID_TAG: str(os.getpid())},
            )
        why = _failure_of(result)
        if "DagsterExecutionInterruptedError" in why:
            raise KeyboardInterrupt  # Dagster has caught Ctrl-C or a SIGTERM, and ended its run in good order
        return why

    def _record(self, stage: Stage, key: str, outcome: Outcome | None, report: StageReport, why: str) -> None:
        if outcome is None:
            report.failed[key] = why
        elif outcome.error:
            report.failed[key] = outcome.error
        elif outcome.computed:
            report.built += 1
        else:
            report.reused += 1
        if outcome is not None:
            report.build_seconds += outcome.seconds
            report.sentences += outcome_sentences(stage.name, outcome)
        if outcome is not None and outcome.blocked:
            self._gone[(stage.name, key)] = f"{stage.name} of {key}: {outcome.blocked}"
        elif not _is_usable(outcome):
            self._gone[(stage.name, key)] = f"{stage.name} of {key} failed"

    def _observe_recipes(self, instance: dg.DagsterInstance) -> None:
        """Tell Dagster the recipes that changed, so that its UI shows what hangs on them as out of date."""
        latest = instance.event_log_storage.get_latest_tags_by_partition(
            RECIPES, dg.DagsterEventType.ASSET_OBSERVATION, tag_keys=["dagster/data_version"]
        )
        for name, version in recipe_versions(list(self.stages.values())).items():
            if latest.get(name, {}).get("dagster/data_version") != version:
                instance.report_runless_asset_event(
                    dg.AssetObservation(RECIPES, partition=name, tags={"dagster/data_version": version})
                )

    def _sync(self) -> None:
        """Mend what a kill may have kept from the database: rows of all stages, crawls, model calls.

        What is damaged of it is set aside, so that the walk builds it again.
        """
        work = Work(self.home, self.progress)
        sync_all({name: stage.keys() for name, stage in self.stages.items()}, work)
        sync_records(work)


def _is_known(stage: Stage, artifact: Artifact, logged: str | None, *, again: bool) -> bool:
    """Return whether nothing is to be done for a key whose artifact is fresh.

    One that a check blocks is looked at in each run, so that each says so.

    logged: the data version that Dagster knows of the key
    """
    is_asked_for = again and stage.crawls
    return logged == artifact.data_version and not is_asked_for and not blocked_by(checks_of(artifact))


def _is_usable(outcome: Outcome | None) -> bool:
    """Return whether what follows can go on: a cell with failed rows has others, and less coverage."""
    if outcome is None or outcome.artifact is None:
        return False
    return outcome.ok or outcome.computed or not outcome.artifact.complete


def _known_to_dagster(stage: Stage, instance: dg.DagsterInstance) -> dict[str, str]:
    """Return key -> data version of the latest materialization that Dagster has on record."""
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        dg.AssetKey(stage.name), dg.DagsterEventType.ASSET_MATERIALIZATION, tag_keys=["dagster/data_version"]
    )
    return {key: found["dagster/data_version"] for key, found in tags.items()}


def _failure_of(result: dg.ExecuteInProcessResult) -> str:
    """Return why a run ended before it came to a key."""
    for event in result.all_events:
        data = getattr(event, "event_specific_data", None)
        error = getattr(data, "error", None)
        if event.is_failure and error is not None:
            return str(error.message).strip()
    return "the run ended before this key was reached"


def close_dead_runs(instance: dg.DagsterInstance) -> int:
    """Mark as failed the runs of ours whose process is gone (killed); return how many there were."""
    runs = instance.get_runs(
        dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING])
    )
    dead = [run for run in runs if PID_TAG in run.tags and not _alive(int(run.tags[PID_TAG]))]
    for run in dead:
        instance.report_run_failed(
            run, "its process ended before the run did; the next run goes on from what it stored"
        )
    return len(dead)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False  # an earlier process with our number: we have no run yet
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def alone(home: Home, progress: Progress) -> Iterator[None]:
    """Let one run or rebuild at a time work on a home; others wait, and are told for whom.

    Raises:
        LockedError: another one held it for 600 seconds.
    """
    home.root.mkdir(parents=True, exist_ok=True)
    path = home.root / "run.lock"
    with path.open("a+") as file:
        deadline = time.monotonic() + 600
        notified = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                if time.monotonic() > deadline:
                    raise LockedError(
                        f"{home.root} is in use by another run (process {holder}); waited 600 s"
                    ) from None
                if not notified:
                    progress(f"waiting for another run on {home.root} (process {holder}) …", 0, 0)
                    notified = True
                time.sleep(0.2)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dagster's event stream off the terminal; it is in the UI."""
    logger = logging.getLogger("dagster")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)

"""A run over the stages of a study: which keys are stale, and what follows from one that failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import dagster as dg

from rag_assay.assets.engine.builder import checks_of
from rag_assay.assets.engine.definition import (
    RunOptions,
    asset_key,
    bring_up,
    recipe_observations,
    sync_records,
)
from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.assets.engine.stage import BuildContext, KeyOutcome, PartitionRef, Progress, Stage, blocked_by
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.log_errors import is_of_log
from rag_assay.orchestration.run_report import RunReport, StageReport, failure_notes
from rag_assay.orchestration.runs.results import keep_current, keep_result, restore_sources
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.terminal.outcome_sentences import outcome_sentences
from rag_assay.warehouse.artifacts import Artifact, StillArtifacts
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home


@dataclass(frozen=True)
class Spread:
    """How the keys of a stage are spread over runs.

    partitions: how many partitions a run covers at most
    workers: how many runs at once share what may be spent; others are not held back by this
    """

    partitions: int = 5
    workers: int = 2


class RunObserver(Protocol):
    """Hears when the stages of a run begin and end."""

    def begin(self, stage: str, number: int, of: int) -> None:
        """Hear that a stage begins, the ``number``-th ``of`` so many."""

    def end(self, report: StageReport) -> None:
        """Receive what came of the stage that began last."""


class Runner(Protocol):
    """Builds keys of a stage, here or elsewhere, and reports how each ended."""

    def __call__(
        self, stage: Stage, keys: Sequence[str], context: dg.OpExecutionContext, options: RunOptions
    ) -> object:
        """Bring keys up to date; ``options.report`` hears of each."""


@dataclass(frozen=True)
class RunSelection:
    """What of a study is run.

    only: names of stages, None for all
    keys: partition keys, None for all
    again: crawl again, although no recipe changed
    """

    only: Sequence[str] | None = None
    keys: Sequence[str] | None = None
    again: bool = False


@dataclass
class _Stale:
    """A stage of which something is to be done: its keys that are not up to date."""

    stage: Stage
    keys: list[str]
    report: StageReport
    begin: float


class StudyRun:
    """Brings the stages of a study up to date, one after the other, each in a step of one Dagster run.

    Looking what is stale needs no Dagster run; building does. So the caller passes the stages at the front
    that are up to date, and opens a run with a step for each of the others:

        for name in run.steps():
            run.build(name, context)

    Args:
        interrupted: says whether the run is to end before the next stage.
    """

    def __init__(  # noqa: PLR0913
        self,
        study: Study,
        home: Home,
        instance: dg.DagsterInstance,
        part: RunSelection,
        *,
        progress: Progress = lambda _label, _done, _of: None,
        watch: RunObserver | None = None,
        interrupted: Callable[[], bool] = lambda: False,
        layout: ProjectLayout = ProjectLayout(),  # noqa: B008 -- it is frozen
    ) -> None:
        self.study = study
        self.home = home
        self.instance = instance
        self.stages = stages_of(Grid([study]), layout)
        self.part = part
        self.progress = progress
        self.watch = watch
        self.interrupted = interrupted
        self.runner: Runner | None = None  # None: in the run and the process of the caller
        # A budget is what one run may spend, and what is damaged after it is found by the next.
        self.options = RunOptions(progress=progress, again=part.again)
        self.report = RunReport()
        self.error: BaseException | None = None  # because of which no stage can go on
        self._reports: dict[str, StageReport] = {}
        # (stage, key) that failed or was left out -> the root of it
        self._gone: dict[tuple[str, str], str] = {}
        self.selected = [
            one.name
            for one in self.stages.values()
            if (part.only is None or one.name in part.only) and one.keys()
        ]
        self._waiting = list(self.selected)
        self._stale: _Stale | None = None
        self._still = StillArtifacts(home)  # refreshed where something was built

    def begin(self) -> None:
        """Repair what a kill may have kept from the database, and tell Dagster the current recipes."""
        self._begin = time.perf_counter()
        restore_sources(self.study, self.stages, self._still)
        self._sync()
        work = BuildContext(self.home, self.progress)
        for stage in self.stages.values():  # what a kill has kept from being noted
            stage.on_committed(stage.keys(), work)
        for observation in recipe_observations(list(self.stages.values()), self.instance):
            self.instance.report_runless_asset_event(observation)

    def end(self) -> RunReport:
        """Bring what is left into the database; return what happened."""
        if not self.report.unchanged:
            self._sync()
        self.report.seconds = time.perf_counter() - self._begin
        return self.report

    def steps(self) -> list[str]:
        """Pass the stages at the front that are up to date; return the names of the others.

        Raises:
            KeyboardInterrupt: the run was interrupted, and that was lost elsewhere.
        """
        while self._stale is None and self._waiting:
            self._look(self._waiting[0])
        return [self._stale.stage.name, *self._waiting] if self._stale else []

    def build(self, name: str, context: dg.OpExecutionContext) -> StageReport:
        """Bring a stage up to date in a step of a Dagster run; return what came of it."""
        if self.error is not None:  # it is in the step that met it
            raise self.error
        try:
            if self._stale is None:
                self._look(name)
            if (stale := self._stale) is not None:
                self._build(stale.stage, stale.keys, stale.report, context)
                self._still.refresh()
                self._finish(stale)
        except BaseException as error:
            self.error = error
            raise
        return self._reports[name]

    def _look(self, name: str) -> None:
        self._stop_if_interrupted()
        stage = self.stages[name]
        self._waiting.remove(name)
        if self.watch:
            self.watch.begin(name, self.selected.index(name) + 1, len(self.selected))
        wanted = [key for key in stage.keys() if self.part.keys is None or key in self.part.keys]
        report = self._reports[name] = StageReport(name, len(wanted), names=tuple(wanted))
        stale = _Stale(stage, [], report, time.perf_counter())
        known = _known_to_dagster(stage, self.instance)
        gone = self._gone
        if stage.tolerates_gaps:
            gone = {**self._not_there, **self._gone}
            stage.without = frozenset(PartitionRef(*one) for one in gone)
            stage.failures = failure_notes(self._reports.values())
            report.gaps = tuple(one for one in stage.upstream if self._is_partial(one))
        for key in wanted:
            root = next((gone[need] for need in stage.needs(key) if need in gone), None)
            if root is None and stage.without and not stage.needs(key):
                root = next(iter(gone.values()))
            artifact = stage.fresh(key, self._still)
            if root is not None:
                report.left_out[key] = root
                self._gone[(name, key)] = root
            elif artifact and _is_known(stage, artifact, known.get(key), again=self.part.again):
                report.fresh += 1
            else:
                stale.keys.append(key)
        if stale.keys:
            self._stale = stale
        else:
            self._finish(stale)

    @cached_property
    def _not_there(self) -> dict[tuple[str, str], str]:
        """Return (stage, key) -> message, of artifacts of stages outside this run that do not exist."""
        return {
            (name, key): f"{name} of {key} is not there yet"
            for name, stage in self.stages.items()
            if name not in self.selected
            for key in stage.keys()
            if self._still.current(name, key) is None
        }

    def _is_partial(self, name: str) -> bool:
        report = self._reports.get(name)
        return report is not None and report.is_partial

    def _finish(self, stale: _Stale) -> None:
        self._stale = None
        stale.report.seconds = time.perf_counter() - stale.begin
        self.report.stages.append(stale.report)
        board = (stale.stage.name, self.study.study)
        if stale.stage.name == "leaderboard" and board not in self._gone:
            keep_result(self.study, self.stages, self._still)  # the report is written of it
        if self.watch:
            self.watch.end(stale.report)
        self._stop_if_interrupted()

    def _stop_if_interrupted(self) -> None:
        if self.interrupted():
            raise KeyboardInterrupt

    def _build(
        self, stage: Stage, keys: list[str], report: StageReport, context: dg.OpExecutionContext
    ) -> None:
        outcomes: dict[str, KeyOutcome] = {}
        why = self._bring_up(stage, keys, outcomes, context)
        why = self._rebuild_damaged(stage, outcomes, context) or why
        for key in keys:
            self._record(stage, key, outcomes.get(key), report, why)
        self.progress(stage.name, len(keys), len(keys))

    def _rebuild_damaged(
        self, stage: Stage, outcomes: dict[str, KeyOutcome], context: dg.OpExecutionContext
    ) -> str:
        """Build again what is damaged, and then the keys that need it; return why that ended, if it did."""
        waiting = [key for key, outcome in outcomes.items() if outcome.damaged]
        if not waiting:
            return ""
        damaged = {need for key in waiting for need in outcomes[key].damaged}
        for name, upstream in self.stages.items():
            keys = sorted(need.key for need in damaged if need.stage == name)
            if keys:
                report = self._reports.setdefault(name, StageReport(name, len(upstream.keys())))
                report.fresh = max(0, report.fresh - len(keys))
                self.options.again = False
                self._build(upstream, keys, report, context)
                self.options.again = self.part.again
        return self._bring_up(stage, waiting, outcomes, context)

    def _bring_up(
        self,
        stage: Stage,
        keys: list[str],
        outcomes: dict[str, KeyOutcome],
        context: dg.OpExecutionContext,
    ) -> str:
        self.options.report = lambda outcome: outcomes.__setitem__(outcome.key, outcome)
        try:
            (self.runner or bring_up)(stage, keys, context, self.options)
        except Exception as error:  # of this stage alone: what does not need it goes on
            if is_of_log(error):  # nothing that follows could be noted
                raise
            context.log.exception(f"{stage.name} ended early")
            return str(error) if isinstance(error, AssayError) else f"{type(error).__name__}: {error}"
        return "the run ended before this key was reached"

    def _record(
        self, stage: Stage, key: str, outcome: KeyOutcome | None, report: StageReport, why: str
    ) -> None:
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

    def _sync(self) -> None:
        """Repair what a kill may have kept from the database: rows of all stages, crawls, model calls.

        What is damaged of it is set aside, so that the run builds it again.
        """
        work = BuildContext(self.home, self.progress)
        keep_current(self.study, self.stages, work, self._still)
        sync_records(work)


def _is_known(stage: Stage, artifact: Artifact, logged: str | None, *, again: bool) -> bool:
    """Return whether nothing is to be done for a key whose artifact is fresh.

    One that a check blocks is looked at in each run, so that each says so.

    logged: the data version that Dagster knows of the key
    """
    is_asked_for = again and stage.crawls
    return logged == artifact.data_version and not is_asked_for and not blocked_by(checks_of(artifact))


def _is_usable(outcome: KeyOutcome | None) -> bool:
    """Return whether what follows can go on: a cell with failed rows has others, and less coverage."""
    if outcome is None or outcome.artifact is None:
        return False
    return outcome.ok or outcome.computed or not outcome.artifact.complete


def _known_to_dagster(stage: Stage, instance: dg.DagsterInstance) -> dict[str, str]:
    tags = instance.event_log_storage.get_latest_tags_by_partition(
        asset_key(stage), dg.DagsterEventType.ASSET_MATERIALIZATION, tag_keys=["dagster/data_version"]
    )
    return {key: found["dagster/data_version"] for key, found in tags.items()}

"""A run over the stages of a study: which keys are stale, and what follows from one that failed."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, DagsterEventBatchMetadata

from rag_assay.assets.engine.builder import checks_of
from rag_assay.assets.engine.definition import RunOptions, bring_up, sync_records
from rag_assay.assets.engine.stage import BuildContext, KeyOutcome, PartitionRef, Progress, Stage, blocked_by
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.automation import recipe_observations
from rag_assay.orchestration.event_log import is_of_log
from rag_assay.orchestration.run_report import RunReport, StageReport, by_reason, failure_notes
from rag_assay.orchestration.runs.results import keep_current, keep_result, restore_sources
from rag_assay.orchestration.stages import stages_of
from rag_assay.orchestration.terminal.outcome_sentences import outcome_sentences
from rag_assay.warehouse.artifacts import Artifact, StillArtifacts
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home

FIRST = 20  # failed keys of a stage that the text of a failed run names


def log_planned(context: dg.OpExecutionContext, stage: str, keys: Sequence[str]) -> None:
    """Note which partitions of an asset a run is about to bring up to date.

    Dagster does so for the assets of a job that it knows to be one of assets. A partition that was planned,
    and has no materialization when its run has failed, is shown as failed.
    """
    batch = uuid.uuid4().hex
    for number, key in enumerate(keys, start=1):
        planned = DagsterEvent.build_asset_materialization_planned_event(
            context.job_name,
            context.get_step_execution_context().step.key,
            AssetMaterializationPlannedData(dg.AssetKey(stage), partition=key),
        )
        context.instance.report_dagster_event(
            planned,
            context.run_id,
            logging.DEBUG,
            batch_metadata=DagsterEventBatchMetadata(batch, is_end=number == len(keys)),
        )


def log_stage(context: dg.OpExecutionContext, report: StageReport) -> None:
    """Write down in a line, and in its sentences, what came of a stage."""
    counts = {
        "computed": report.built,
        "found again": report.reused,
        "up to date": report.fresh,
        "failed": len(report.failed),
        "left out": len(report.left_out),
    }
    told = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    context.log.info("\n".join([f"{report.stage}: {told}, in {report.seconds:.1f} s", *report.sentences]))


def failure_text(stages: Iterable[StageReport]) -> str:
    """Return which keys of a run failed and why, stage by stage, for the text of its failed run.

    >>> print(failure_text([StageReport("scores", 3, failed={"a": "no key"}, left_out={"b": "", "c": ""})]))
    1 of 3 scores failed:
    - a: no key
    2 of 3 scores were left out: what they need failed
    """
    lines: list[str] = []
    for stage in stages:
        if stage.failed:
            lines.append(f"{len(stage.failed)} of {stage.keys} {stage.stage} failed:")
            for reason, keys in by_reason(stage.failed).items():
                more = f" and {len(keys) - FIRST} more" if len(keys) > FIRST else ""
                lines.append(f"- {', '.join(keys[:FIRST])}{more}: {reason}")
        if stage.left_out:
            lines.append(
                f"{len(stage.left_out)} of {stage.keys} {stage.stage} were left out: what they need failed"
            )
    return "\n".join(lines)


def stage_table(report: RunReport) -> str:
    """Return a run as a table in Markdown, a row a stage.

    >>> print(stage_table(RunReport([StageReport("chunks", 4, fresh=3, built=1, seconds=0.26)])))
    | stage | keys | up to date | computed | found again | failed | left out | seconds |
    |---|--:|--:|--:|--:|--:|--:|--:|
    | chunks | 4 | 3 | 1 | 0 | 0 | 0 | 0.3 |
    """
    rows = [
        "| stage | keys | up to date | computed | found again | failed | left out | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {one.stage} | {one.keys} | {one.fresh} | {one.built} | {one.reused} | {len(one.failed)} "
        f"| {len(one.left_out)} | {one.seconds:.1f} |"
        for one in report.stages
    ]
    return "\n".join(rows)


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
    """What of a study is walked.

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


class Walk:
    """Brings the stages of a study up to date, one after the other, within one Dagster run.

    Looking what is stale needs no run; building does. So the caller asks for the `next_stale` stage, and has
    it built in a run that it opens when there is one:

        while walk.next_stale():
            walk.build(context)

    Args:
        interrupted: says whether the walk is to end before the next stage.
    """

    def __init__(
        self,
        study: Study,
        home: Home,
        instance: dg.DagsterInstance,
        part: RunSelection,
        *,
        progress: Progress = lambda _label, _done, _of: None,
        watch: RunObserver | None = None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.study = study
        self.home = home
        self.instance = instance
        self.stages = stages_of(Grid([study]))
        self.part = part
        self.progress = progress
        self.watch = watch
        self.interrupted = interrupted
        self.runner: Runner | None = None  # None: in the run and the process of the walk
        # A budget is what one walk may spend, and what is damaged after it is found by the next.
        self.options = RunOptions(progress=progress, again=part.again)
        self.report = RunReport()
        self._reports: dict[str, StageReport] = {}
        # (stage, key) that failed or was left out -> the root of it
        self._gone: dict[tuple[str, str], str] = {}
        self._waiting = [
            one for one in self.stages.values() if (part.only is None or one.name in part.only) and one.keys()
        ]
        self._n_stages = len(self._waiting)
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

    def next_stale(self) -> bool:
        """Pass the stages of which nothing is to be done; return whether there is one with stale keys.

        Raises:
            KeyboardInterrupt: the walk was interrupted, and that was lost elsewhere.
        """
        while self._stale is None and self._waiting:
            stage = self._waiting.pop(0)
            if self.watch:
                self.watch.begin(stage.name, self._n_stages - len(self._waiting), self._n_stages)
            self._look(stage)
        return self._stale is not None

    def build(self, context: dg.OpExecutionContext) -> None:
        """Build the stale keys of the stage that `next_stale` has found, in the run of ``context``."""
        assert self._stale is not None  # noqa: S101 -- the caller has asked
        stale = self._stale
        self._build(stale.stage, stale.keys, stale.report, context)
        self._still.refresh()
        self._finish(stale)
        log_stage(context, stale.report)

    def _look(self, stage: Stage) -> None:
        wanted = [key for key in stage.keys() if self.part.keys is None or key in self.part.keys]
        report = self._reports[stage.name] = StageReport(stage.name, len(wanted), names=tuple(wanted))
        self._stale = _Stale(stage, [], report, time.perf_counter())
        known = _known_to_dagster(stage, self.instance)
        if stage.tolerates_gaps:
            stage.without = frozenset(PartitionRef(*gone) for gone in self._gone)
            stage.failures = failure_notes(self._reports.values())
        for key in wanted:
            root = next((self._gone[need] for need in stage.needs(key) if need in self._gone), None)
            if root is None and stage.without and not stage.needs(key):
                root = next(iter(self._gone.values()))
            artifact = stage.fresh(key, self._still)
            if root is not None:
                report.left_out[key] = root
                self._gone[(stage.name, key)] = root
            elif artifact and _is_known(stage, artifact, known.get(key), again=self.part.again):
                report.fresh += 1
            else:
                self._stale.keys.append(key)
        if not self._stale.keys:
            self._finish(self._stale)

    def _finish(self, stale: _Stale) -> None:
        self._stale = None
        stale.report.seconds = time.perf_counter() - stale.begin
        self.report.stages.append(stale.report)
        board = (stale.stage.name, self.study.study)
        if stale.stage.name == "leaderboard" and board not in self._gone:
            keep_result(self.study, self.stages, self._still)  # the report is written of it
        if self.watch:
            self.watch.end(stale.report)
        if self.interrupted():
            raise KeyboardInterrupt

    def _build(
        self, stage: Stage, keys: list[str], report: StageReport, context: dg.OpExecutionContext
    ) -> None:
        outcomes: dict[str, KeyOutcome] = {}
        parts = [[key] for key in keys] if stage.crawls else [keys]
        for number, part in enumerate(parts):
            if stage.crawls:
                self.progress(stage.name, number, len(parts))
            why = self._bring_up(stage, part, outcomes, context)
            why = self._rebuild_damaged(stage, outcomes, context) or why
            for key in part:
                self._record(stage, key, outcomes.get(key), report, why)
        self.progress(stage.name, len(parts), len(parts))

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
        if self.runner is None:  # else Dagster plans what each run builds
            log_planned(context, stage.name, keys)
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

        What is damaged of it is set aside, so that the walk builds it again.
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
        dg.AssetKey(stage.name), dg.DagsterEventType.ASSET_MATERIALIZATION, tag_keys=["dagster/data_version"]
    )
    return {key: found["dagster/data_version"] for key, found in tags.items()}

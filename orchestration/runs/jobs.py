"""The job of a study: a step for each of its stages, started by a user in the UI, a schedule or a command.

The steps are not connected: a failed step would stop what follows it, although the keys that are good can go
on. They run in one process, in the order of their priorities. A step fails if any of its keys did, was left
out, or was built with gaps, so that a re-execution from failure does the rest, and nothing else.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import dagster as dg

from rag_assay.assets.engine.definition import OPTIONS, RunOptions
from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.assets.engine.stage import LOCAL_MODEL
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import note
from rag_assay.evals.study.study import Study
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.alerts import delivery
from rag_assay.orchestration.log_errors import plain_failures
from rag_assay.orchestration.names import job_name
from rag_assay.orchestration.run_report import StageReport, failure_text, stage_counts
from rag_assay.orchestration.runs.home_lock import hold_home
from rag_assay.orchestration.runs.run import RunSelection, StudyRun
from rag_assay.orchestration.settings import instance_folder
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.budget import Budgets
from rag_assay.warehouse.paths import home

STUDY_TAG = "assay/study"
SEARCH = "search"
RUN = "study_run"
SELDOM = 15.0  # seconds between two lines in the log of a step on how far it is

_STAGE = dg.Enum("StudyStage", [dg.EnumValue(name) for name in stages_of(Grid([]))])
_CONFIG = {
    "again": dg.Field(
        bool,
        default_value=False,
        description="Crawl the sources of the study again. Default: a source is crawled if it never was, or "
        "if its recipe changed.",
    ),
    "stages": dg.Field(
        [_STAGE],
        default_value=[],
        description="Stages to bring up to date; the steps of the others do nothing. Default: all of them.",
    ),
    "keys": dg.Field(
        [str], default_value=[], description="Partition keys to bring up to date. Default: all of them."
    ),
}
# What is in the log of a run is in the UI: nothing of it is printed as well.
_QUIET = {"console": {"config": {"log_level": "CRITICAL"}}}


class StepRunner(Protocol):
    """Does the work of a step."""

    def build(self, name: str, context: dg.OpExecutionContext) -> StageReport:
        """Bring a stage up to date; return what came of it."""


def study_job(
    study: Study,
    identifier: str,
    run: StudyRun | None = None,
    layout: ProjectLayout = ProjectLayout(),  # noqa: B008 -- it is frozen
    options: object | None = None,
) -> dg.JobDefinition:
    """Return the job that brings a study up to date, from its sources to its report.

    run: what its steps do. Default: a run that the first step begins, as for a job that Dagster launches
    options: the resource of `RunOptions`, with the budgets of such a run
    """
    names = [stage.name for stage in stages_of(Grid([study])).values() if stage.keys()]
    # A run whose keys are built in other runs only waits for them, and these may need the pool.
    pool = None if run and run.runner else LOCAL_MODEL
    if study.search is not None:
        names.insert(0, SEARCH)
    ops = [_step(name, identifier, -number, pool, layout) for number, name in enumerate(names)]

    @dg.job(
        name=job_name(identifier),
        description=f"Bring the study {study.study} up to date, from its sources to its report: what "
        f"changed, what is missing and what failed before, in one run. {study.description}".strip(),
        tags={STUDY_TAG: study.study},
        executor_def=dg.in_process_executor,
        resource_defs={RUN: _run_resource(study, run, layout), layout.name(OPTIONS): options or RunOptions()},
        config=dg.ConfigMapping(
            config_schema=_CONFIG,
            config_fn=lambda given: {"resources": {RUN: {"config": dict(given)}}, "loggers": _QUIET},
        ),
    )
    def job() -> None:
        for op in ops:
            op()

    return job


def _step(
    name: str, identifier: str, priority: int, pool: str | None, layout: ProjectLayout
) -> dg.PendingNodeInvocation[Any]:
    @dg.op(
        name=f"{name}_of_{identifier}",
        required_resource_keys={RUN},
        pool=pool and layout.pool_of(name, pool),
        tags={**layout.tags_of(name), "dagster/priority": str(priority)},
        out=dg.Out(dg.Nothing),
        description="Run the search of the study, whose remaining cells the other steps build."
        if name == SEARCH
        else f"Build the {name} that are not up to date. Each key is committed by itself; one that fails "
        "leaves the others to go on.",
    )
    def build(context: dg.OpExecutionContext) -> None:
        run: StepRunner = getattr(context.resources, RUN)
        with _plain_errors():
            report = run.build(name, context)
        counts = stage_counts(report)
        told = ", ".join(f"{number} {what}" for what, number in counts.items())
        line = f"{name}: {told or 'nothing to build'}, in {report.seconds:.1f} s"
        context.log.info("\n".join([line, *report.sentences]))
        if report.is_partial:
            failed = {"failed keys": {**report.failed, **report.left_out}}
            raise dg.Failure(failure_text(report), metadata={**counts, **failed}, allow_retries=False)
        context.add_output_metadata(counts)

    return build.alias(name)


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        with plain_failures(instance_folder(home())):
            yield
    except AssayError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
    except KeyboardInterrupt:
        raise dg.DagsterExecutionInterruptedError from None


def _run_resource(study: Study, run: StudyRun | None, layout: ProjectLayout) -> dg.ResourceDefinition:
    options = layout.name(OPTIONS)

    @dg.resource(
        config_schema=_CONFIG,
        required_resource_keys={options},
        description="The run of the study, which its steps share.",
    )
    def resource(context: dg.InitResourceContext) -> Iterator[StepRunner]:
        if run is not None:
            yield run
            return
        config: Mapping[str, Any] = context.resource_config
        budgets = getattr(context.resources, options).budgets
        part = RunSelection(config["stages"] or None, config["keys"] or None, config["again"])
        launched = LaunchedRun(study, part, layout, budgets)
        try:
            yield launched
        finally:
            launched.close()

    return resource


class LaunchedRun:
    """A run that Dagster launched; its first step waits for the workspace, its end frees it."""

    def __init__(self, study: Study, part: RunSelection, layout: ProjectLayout, budgets: Budgets) -> None:
        self.study = study
        self.layout = layout
        self.part = part
        self._budgets = budgets
        self._stack = ExitStack()
        self._begun: tuple[dg.DagsterInstance, Callable[[], bool]] | None = None
        self._run: StudyRun | None = None
        self._error: BaseException | None = None
        self._context: dg.OpExecutionContext | None = None
        self._told_at: dict[str, float] = {}

    def build(self, name: str, context: dg.OpExecutionContext) -> StageReport:
        with self._step(context):
            if name == SEARCH:
                return StageReport(SEARCH, 0) if self.part.only else self._search(context)
            if self._run is None:
                self._run = self._new(narrow_study(self.study, home()), self.part)
                self._run.begin()
            if name not in self._run.selected:  # or the search has left no cell that needs it
                return StageReport(name, 0)
            return self._run.build(name, context)

    def _search(self, context: dg.OpExecutionContext) -> StageReport:
        from rag_assay.orchestration.search_run import search_study
        from rag_assay.orchestration.stages import up_to

        def bring_up(study: Study, part: RunSelection) -> None:
            run = self._new(study, part)
            run.begin()
            for name in run.steps():
                run.build(name, context)
            run.end()

        if self.part.again:  # before the search, whose questions and documents are the current ones
            bring_up(self.study, RunSelection(("pages",), again=True))
        search_study(
            self.study,
            home(),
            lambda one, last: bring_up(one, RunSelection(tuple(up_to(one, [last])))),
            context.log.info,
        )
        self.part = RunSelection(keys=self.part.keys)
        return StageReport(SEARCH, 0)

    def close(self) -> None:
        """End the run: bring what is left into the database, send the alerts, free the workspace."""
        with self._stack:
            if self._run is not None and self._error is None:
                report = self._run.end()
                if self.part.only is None and any(one.stage == "report" for one in report.stages):
                    delivery.tell(self._run.study, self._run.stages, home(), report)

    def _new(self, study: Study, part: RunSelection) -> StudyRun:
        assert self._begun is not None  # noqa: S101 -- by the step
        instance, interrupted = self._begun
        run = StudyRun(
            study,
            home(),
            instance,
            part,
            progress=self._tell,
            interrupted=interrupted,
            layout=self.layout,
        )
        run.options.budgets = self._budgets
        return run

    @contextmanager
    def _step(self, context: dg.OpExecutionContext) -> Iterator[None]:
        if self._error is not None:
            raise self._error
        self._context = context
        try:
            if self._begun is None:
                note(self.study, home())
                held = hold_home(home(), lambda: context.instance, self._tell, context.run_id)
                self._begun = self._stack.enter_context(held)
            yield
        except BaseException as error:
            self._error = error
            raise

    def _tell(self, label: str, done: int, of: int) -> None:
        now = time.monotonic()
        if self._context is None or (of and now - self._told_at.setdefault(label, now) < SELDOM):
            return
        self._told_at[label] = now
        self._context.log.info(f"{label}: {done} of {of}" if of else label)

"""What `assay run` starts: a study brought up to date in one Dagster run, in this process."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg

from rag_assay.assets.engine.stage import Progress
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.alerts.delivery import tell
from rag_assay.orchestration.event_log import open_instance
from rag_assay.orchestration.interrupts import INTERRUPTIONS, only_critical
from rag_assay.orchestration.names import identifiers
from rag_assay.orchestration.run_report import RunReport
from rag_assay.orchestration.runs.home_lock import hold_home, workspace_tag
from rag_assay.orchestration.runs.jobs import STUDY_TAG, study_job
from rag_assay.orchestration.runs.run import RunObserver, RunSelection, Spread, StudyRun
from rag_assay.orchestration.settings import instance_folder
from rag_assay.warehouse.inference.budget import Budgets
from rag_assay.warehouse.paths import Home

_ONCE = {"dagster/max_retries": "0"}  # a killed command is run again by the user


@dataclass(frozen=True)
class Driver:
    """Brings the assets of one study up to date.

    Args:
        study: the study.
        home: the prepared home folder; `DAGSTER_HOME` lies in it.
        progress: hears (label, done, of); `of` 0 means a sentence without a count.
        watch: hears of the stages.
        spread: how runs are spread that Dagster launches, where its launcher does; None: all in this process.
    """

    study: Study
    home: Home
    progress: Progress = lambda _label, _done, _of: None
    watch: RunObserver | None = None
    spread: Spread | None = None

    def run(
        self,
        only: Sequence[str] | None = None,
        *,
        again: bool = False,
        keys: Sequence[str] | None = None,
        budgets: Budgets | None = None,
    ) -> RunReport:
        """Build the stages (or ``only`` some, or only some ``keys`` of them); ``again`` crawls again.

        Where nothing is stale, no Dagster run is made.

        budgets: what this and other runs may spend together; None: what this one may
        """
        with self._begun(RunSelection(only, keys, again)) as run:
            if budgets is not None:
                run.options.budgets = budgets
            if steps := run.steps():
                self._in_one_run(run, steps)
            report = run.end()
        if only is None:
            tell(self.study, run.stages, self.home, report)
        return report

    def is_up_to_date(self) -> bool:
        with self._begun(RunSelection()) as run:
            return not run.steps() and run.end().ok

    @contextmanager
    def _begun(self, part: RunSelection) -> Iterator[StudyRun]:
        held = hold_home(self.home, lambda: open_instance(instance_folder(self.home)), self.progress)
        with held as (instance, interrupted):
            run = StudyRun(
                self.study,
                self.home,
                instance,
                part,
                progress=self.progress,
                watch=self.watch,
                interrupted=interrupted,
            )
            run.begin()
            yield run

    def _in_one_run(self, run: StudyRun, steps: Sequence[str]) -> None:
        """Build what is stale in one Dagster run of this process.

        Raises:
            KeyboardInterrupt: the run was interrupted; it has ended in good order.
        """
        (identifier,) = identifiers([self.study.study]).values()
        run_id = str(uuid.uuid4())
        with _quiet(), self._runner(run, run_id):
            result = study_job(self.study, identifier, run).execute_in_process(
                instance=run.instance,
                raise_on_error=False,
                run_id=run_id,
                run_config={"again": run.part.again, "keys": list(run.part.keys or ())},
                op_selection=list(steps),
                tags={**workspace_tag(self.home), **_ONCE},
            )
        is_canceled = result.dagster_run.status is dg.DagsterRunStatus.CANCELED
        # Dagster has caught Ctrl-C or a SIGTERM, in a step or between two, and ended its run in good order.
        if is_canceled or isinstance(run.error, INTERRUPTIONS) or run.interrupted():
            raise KeyboardInterrupt
        if run.error:
            raise run.error

    @contextmanager
    def _runner(self, run: StudyRun, run_id: str) -> Iterator[None]:
        if self.spread is None:
            yield
            return
        from rag_assay.orchestration.runs.remote_runner import SubmittedRunner

        tags = {STUDY_TAG: self.study.study, "assay/walk": run_id}
        runner = SubmittedRunner(self.home, run.instance, tags, self.spread)
        run.runner = runner
        try:
            yield
        finally:
            runner.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dagster's event stream off the terminal; it is in the UI."""
    root = logging.getLogger()
    root.addFilter(_is_no_retry)
    try:
        with only_critical("dagster"):
            yield
    finally:
        root.removeFilter(_is_no_retry)


def _is_no_retry(record: logging.LogRecord) -> bool:
    """Return whether a line is not that dagster-postgres tries again; if it fails, a sentence says so."""
    return not record.getMessage().startswith("Retrying failed database connection")

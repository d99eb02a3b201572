"""What `assay run` starts: a study brought up to date in one Dagster run, in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dagster as dg

from rag_assay.assets.engine.stage import LOCAL_MODEL, Progress
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.alerts.delivery import tell
from rag_assay.orchestration.event_log import open_instance
from rag_assay.orchestration.interrupts import INTERRUPTIONS
from rag_assay.orchestration.names import identifiers
from rag_assay.orchestration.run_report import RunReport
from rag_assay.orchestration.runs.home_lock import hold_home, process_tags
from rag_assay.orchestration.runs.jobs import STUDY_TAG, walk_job
from rag_assay.orchestration.runs.run import RunObserver, RunSelection, Spread, Walk
from rag_assay.orchestration.settings import instance_folder
from rag_assay.warehouse.inference.budget import Budgets
from rag_assay.warehouse.paths import Home

_ONCE = {"dagster/max_retries": "0"}  # a killed command is run again by the user


class Driver:
    """Brings the assets of one study up to date.

    Args:
        study: the study.
        home: the prepared home folder; `DAGSTER_HOME` lies in it.
        progress: hears (label, done, of); `of` 0 means a sentence without a count.
        watch: hears of the stages.
        spread: how runs are spread that Dagster launches, where its launcher does; None: all in this process.
    """

    def __init__(
        self,
        study: Study,
        home: Home,
        progress: Progress = lambda _label, _done, _of: None,
        watch: RunObserver | None = None,
        spread: Spread | None = None,
    ) -> None:
        self.study = study
        self.home = home
        self.progress = progress
        self.watch = watch
        self.spread = spread

    def run(
        self,
        only: Sequence[str] | None = None,
        *,
        again: bool = False,
        keys: Sequence[str] | None = None,
        budgets: Budgets | None = None,
    ) -> RunReport:
        """Walk the stages (or ``only`` some, or only some ``keys`` of them); ``again`` crawls again.

        Where nothing is stale, no Dagster run is made.

        budgets: what this and other walks may spend together; None: what this one may
        """
        with hold_home(self.home, lambda: open_instance(instance_folder(self.home)), self.progress) as (
            instance,
            interrupted,
        ):
            walk = Walk(
                self.study,
                self.home,
                instance,
                RunSelection(only, keys, again),
                progress=self.progress,
                watch=self.watch,
                interrupted=interrupted,
            )
            if budgets is not None:
                walk.options.budgets = budgets
            walk.begin()
            if walk.next_stale():
                self._in_one_run(walk, instance)
            report = walk.end()
        if only is None:
            tell(self.study, walk.stages, self.home, report)
        return report

    def _in_one_run(self, walk: Walk, instance: dg.DagsterInstance) -> None:
        """Build what is stale in one Dagster run of this process.

        Raises:
            KeyboardInterrupt: the run was interrupted; it has ended in good order.
        """
        raised: list[BaseException] = []

        def body(context: dg.OpExecutionContext) -> RunReport:
            try:
                with self._runner(walk, context):
                    walk.build(context)
                    while walk.next_stale():
                        walk.build(context)
            except BaseException as error:
                raised.append(error)
                raise
            return walk.report

        (identifier,) = identifiers([self.study.study]).values()
        with _quiet():
            pool = LOCAL_MODEL if self.spread is None else None
            result = walk_job(self.study, identifier, body, pool=pool).execute_in_process(
                instance=instance,
                raise_on_error=False,
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                tags={**process_tags(), **_ONCE},
            )
        is_canceled = result.dagster_run.status is dg.DagsterRunStatus.CANCELED
        if is_canceled or any(isinstance(error, INTERRUPTIONS) for error in raised):
            raise KeyboardInterrupt  # Dagster has caught Ctrl-C or a SIGTERM, and ended its run in good order
        if raised:
            raise raised[0]

    @contextmanager
    def _runner(self, walk: Walk, context: dg.OpExecutionContext) -> Iterator[None]:
        if self.spread is None:
            yield
            return
        from rag_assay.orchestration.runs.remote_runner import SubmittedRunner

        tags = {STUDY_TAG: self.study.study, "assay/walk": context.run_id}
        runner = SubmittedRunner(self.home, walk.instance, tags, self.spread)
        walk.runner = runner
        try:
            yield
        finally:
            runner.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dagster's event stream off the terminal; it is in the UI."""
    logger = logging.getLogger("dagster")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_retry)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(_is_no_retry)
        logger.setLevel(before)


def _is_no_retry(record: logging.LogRecord) -> bool:
    """Return whether a line is not that dagster-postgres tries again; if it fails, a sentence says so."""
    return not record.getMessage().startswith("Retrying failed database connection")

"""What `assay run` starts: a walk over a study in one Dagster run, in this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dagster as dg

from assets.engine.stage import Progress
from evals.study.study import Study
from orchestration.alerting.telling import tell
from orchestration.event_log import opened_instance
from orchestration.interrupts import INTERRUPTIONS
from orchestration.names import identifiers
from orchestration.run_report import RunReport
from orchestration.walking.home_lock import PID_TAG
from orchestration.walking.jobs import walk_job
from orchestration.walking.session import held
from orchestration.walking.walk import Part, Walk, Watch
from warehouse.inference.budget import Budgets
from warehouse.paths import Home

_ONCE = {"dagster/max_retries": "0"}  # whoever ran a command that was killed runs it again


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
        with held(self.home, lambda: opened_instance(self.home.dagster), self.progress) as (
            instance,
            interrupted,
        ):
            walk = Walk(
                self.study,
                self.home,
                instance,
                Part(only, keys, again),
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
                walk.build(context)
                while walk.next_stale():
                    walk.build(context)
            except BaseException as error:
                raised.append(error)
                raise
            return walk.report

        (identifier,) = identifiers([self.study.study]).values()
        with _quiet():
            result = walk_job(self.study, identifier, body).execute_in_process(
                instance=instance,
                raise_on_error=False,
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                tags={PID_TAG: str(os.getpid()), **_ONCE},
            )
        is_canceled = result.dagster_run.status is dg.DagsterRunStatus.CANCELED
        if is_canceled or any(isinstance(error, INTERRUPTIONS) for error in raised):
            raise KeyboardInterrupt  # Dagster has caught Ctrl-C or a SIGTERM, and ended its run in good order
        if raised:
            raise raised[0]


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

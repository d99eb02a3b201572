"""Waits for submitted runs: for their retries too, and no longer than somebody works on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from assets.engine.submission import ALIVE_TAG
from warehouse.errors import AssayError

RETRY_OF = "dagster/parent_run_id"
WILL_RETRY = "dagster/will_retry"
QUEUE_DAEMON = "QUEUED_RUN_COORDINATOR"


@dataclass(frozen=True)
class Patience:
    """How long is waited, in seconds.

    look: between two looks
    lost: without a sign of life of a worker, after which its run counts as lost
    taken: for a run to be launched while nobody launches any
    retried: for Dagster to make the retry that it has announced
    """

    look: float = 0.5
    lost: float = 120.0
    taken: float = 60.0
    retried: float = 120.0


@dataclass(frozen=True)
class Ended:
    """A run that has ended, after its retries.

    runs: it and the runs of which it is the retry
    why: why it failed, None where it did not
    """

    run: dg.DagsterRun
    keys: tuple[str, ...]
    runs: tuple[dg.DagsterRun, ...]
    why: str | None


@dataclass
class _Watched:
    keys: tuple[str, ...]
    since: float
    failed: float = 0.0  # when it was seen that it had
    before: list[dg.DagsterRun] = field(default_factory=list)


class Waiting:
    """Runs that are waited for."""

    def __init__(
        self, instance: dg.DagsterInstance, patience: Patience, now: Callable[[], float] = time.time
    ) -> None:
        self.instance = instance
        self.patience = patience
        self._now = now
        self._runs: dict[str, _Watched] = {}

    def add(self, run_id: str, keys: Sequence[str]) -> None:
        """Wait for a run, too."""
        self._runs[run_id] = _Watched(tuple(keys), self._now())

    def ended(self) -> Iterator[Ended]:
        """Yield the runs as they end.

        Raises:
            AssayError: nobody launches them.
        """
        while self._runs:
            found = self.instance.get_runs(dg.RunsFilter(run_ids=list(self._runs)))
            seen = {run.run_id for run in found}
            gone = [run_id for run_id in self._runs if run_id not in seen]
            if gone:
                raise AssayError(f"the run {gone[0]} was deleted while it was waited for; run again")
            ended = [one for run in found if (one := self._look(run))]
            yield from ended
            if self._runs and not ended:
                time.sleep(self.patience.look)

    def cancel(self) -> None:
        """End the runs that are still waited for."""
        for run_id in list(self._runs):
            run = self.instance.get_run_by_id(run_id)
            if run is None or run.is_finished:
                continue
            is_queued = run.status in {dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED}
            if is_queued or not self.instance.run_launcher.terminate(run_id):
                self.instance.report_run_canceled(run, "whoever had submitted it was stopped")
        self._runs.clear()

    def _look(self, run: dg.DagsterRun) -> Ended | None:
        watched = self._runs[run.run_id]
        if run.is_finished:
            return self._after(run, watched)
        if run.status in {dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED}:
            self._refuse_unlaunched(run, watched)
        elif self._is_lost(run):
            self.instance.report_run_failed(
                run, f"its worker gave no sign of life for {self.patience.lost:.0f} s; what it stored is kept"
            )
        return None

    def _after(self, run: dg.DagsterRun, watched: _Watched) -> Ended | None:
        """Return how a run has ended, or watch its retry in its place."""
        if run.status is dg.DagsterRunStatus.FAILURE and run.tags.get(WILL_RETRY) == "true":
            retries = self.instance.get_runs(dg.RunsFilter(tags={RETRY_OF: run.run_id}), limit=1)
            watched.failed = watched.failed or self._now()
            if retries:
                del self._runs[run.run_id]
                self._runs[retries[0].run_id] = _Watched(
                    watched.keys, self._now(), before=[*watched.before, run]
                )
                return None
            if self._now() - watched.failed < self.patience.retried:
                return None
        del self._runs[run.run_id]
        why = None if run.status is dg.DagsterRunStatus.SUCCESS else self._why(run)
        return Ended(run, watched.keys, (*watched.before, run), why)

    def _why(self, run: dg.DagsterRun) -> str:
        """Return why a run failed: what its step says, else what Dagster says of the run."""
        if run.status is dg.DagsterRunStatus.CANCELED:
            return "its run was canceled"
        kinds = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}
        said: list[Any] = []
        for kind in (dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE):
            said += self.instance.get_records_for_run(run.run_id, of_type=kind).records
        for record in said:
            event = record.event_log_entry.dagster_event
            if event is None or event.event_type not in kinds:
                continue
            if event.is_step_failure:
                data = event.step_failure_data
                user = data.user_failure_data
                text = user.description if user else data.error.message if data.error else None
            else:
                text = event.message
            if text:
                return str(text).strip()
        return "its run failed"

    def _is_lost(self, run: dg.DagsterRun) -> bool:
        """Return whether a run has begun, and its worker has not been heard of for too long."""
        alive = run.tags.get(ALIVE_TAG)
        return alive is not None and self._now() - float(alive) > self.patience.lost

    def _refuse_unlaunched(self, run: dg.DagsterRun, watched: _Watched) -> None:
        if self._now() - watched.since < self.patience.taken or self._is_launching():
            return
        raise AssayError(
            f"nobody launches the runs of this Dagster instance: {run.run_id} has been waiting for "
            f"{self._now() - watched.since:.0f} s. Start `dagster-daemon run -m orchestration.definitions` "
            "with the same DAGSTER_HOME and ASSAY_HOME, then run again; nothing is lost"
        )

    def _is_launching(self) -> bool:
        from dagster._daemon.controller import get_daemon_statuses

        found = get_daemon_statuses(self.instance, daemon_types=[QUEUE_DAEMON])
        return all(status.healthy for status in found.values())

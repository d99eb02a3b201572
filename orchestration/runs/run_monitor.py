"""Waits for submitted runs: for their retries too, and no longer than somebody works on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from rag_assay.assets.engine.submission import ALIVE_TAG, SUBMITTED_TAG
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.redaction import one_line

RETRY_OF = "dagster/parent_run_id"
WILL_RETRY = "dagster/will_retry"
QUEUE_DAEMON = "QUEUED_RUN_COORDINATOR"
_FROM_OUTSIDE = "This run has been marked as failed from outside"


@dataclass(frozen=True)
class Patience:
    """How long is waited, in seconds.

    look: between two looks
    lost: without a sign of life of a worker, after which its run counts as lost
    taken: for a run to be launched while no daemon launches any
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


def _with_causes(error: SerializableErrorInfo) -> list[SerializableErrorInfo]:
    found = [error]
    while found[-1].cause is not None:
        found.append(found[-1].cause)
    return found


@dataclass
class _Watched:
    keys: tuple[str, ...]
    since: float
    failed: float = 0.0  # when it was seen that it had
    before: list[dg.DagsterRun] = field(default_factory=list)


def close_lost_runs(instance: dg.DagsterInstance, lost: float = Patience.lost) -> int:
    """Mark as failed the submitted runs that no driver waits for and whose workers are gone; return how many.

    lost: seconds without a sign of life
    """
    running = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    gone = [run for run in running if SUBMITTED_TAG in run.tags and _is_lost(run, lost, time.time())]
    for run in gone:
        _fail_lost(instance, run, lost)
    return len(gone)


def _is_lost(run: dg.DagsterRun, lost: float, now: float) -> bool:
    alive = run.tags.get(ALIVE_TAG)
    return alive is not None and now - float(alive) > lost


def _fail_lost(instance: dg.DagsterInstance, run: dg.DagsterRun, lost: float) -> None:
    instance.report_run_failed(run, f"no heartbeat from its worker for {lost:.0f} s; stored results are kept")


class RunMonitor:
    """Runs that are waited for."""

    def __init__(
        self, instance: dg.DagsterInstance, patience: Patience, now: Callable[[], float] = time.time
    ) -> None:
        self.instance = instance
        self.patience = patience
        self._now = now
        self._runs: dict[str, _Watched] = {}

    def add(self, run_id: str, keys: Sequence[str]) -> None:
        self._runs[run_id] = _Watched(tuple(keys), self._now())

    def ended(self) -> Iterator[Ended]:
        while self._runs:
            found = self.instance.get_runs(dg.RunsFilter(run_ids=list(self._runs)))
            seen = {run.run_id for run in found}
            gone = [run_id for run_id in self._runs if run_id not in seen]
            if gone:
                raise AssayError(f"the run {gone[0]} was deleted while it ran; run again")
            ended = [one for run in found if (one := self._look(run))]
            yield from ended
            if self._runs and not ended:
                time.sleep(self.patience.look)

    def cancel(self) -> None:
        for run_id in list(self._runs):
            run = self.instance.get_run_by_id(run_id)
            if run is None or run.is_finished:
                continue
            is_queued = run.status in {dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED}
            if is_queued or not self.instance.run_launcher.terminate(run_id):
                self.instance.report_run_canceled(run, "the process that submitted it was stopped")
        self._runs.clear()

    def _look(self, run: dg.DagsterRun) -> Ended | None:
        watched = self._runs[run.run_id]
        if run.is_finished:
            return self._after(run, watched)
        if run.status in {dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED}:
            self._refuse_unlaunched(run, watched)
        elif _is_lost(run, self.patience.lost, self._now()):
            _fail_lost(self.instance, run, self.patience.lost)
        return None

    def _after(self, run: dg.DagsterRun, watched: _Watched) -> Ended | None:
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
        if run.status is dg.DagsterRunStatus.CANCELED:
            return "its run was canceled"
        for data in self._said(run, dg.DagsterEventType.STEP_FAILURE):
            user = data.step_failure_data.user_failure_data
            error = data.step_failure_data.error
            if text := user.description if user else error.message if error else None:
                return str(text).strip()
        told = [str(one.message).strip() for one in self._said(run, dg.DagsterEventType.RUN_FAILURE)]
        plain = [text for text in told if text and not text.startswith(_FROM_OUTSIDE)]
        return plain[0] if plain else self._launching_failed(run) or (told or ["its run failed"])[0]

    def _launching_failed(self, run: dg.DagsterRun) -> str | None:
        """Say why a run was not launched, which the event of its failure does not; None: it was."""
        said = self._said(run, dg.DagsterEventType.ENGINE_EVENT)
        errors = [one.engine_event_data.error for one in said if one.engine_event_data.error]
        if not errors:
            return None
        roots = [error for error in _with_causes(errors[-1]) if error.message.strip()]
        reason = one_line(roots[-1].message) if roots else errors[-1].cls_name or "no reason was given"
        return f"Dagster could not launch its run ({reason}); check its run launcher"

    def _said(self, run: dg.DagsterRun, kind: dg.DagsterEventType) -> list[dg.DagsterEvent]:
        records = self.instance.get_records_for_run(run.run_id, of_type=kind).records
        events = [record.event_log_entry.dagster_event for record in records]
        return [event for event in events if event is not None and event.event_type is kind]

    def _refuse_unlaunched(self, run: dg.DagsterRun, watched: _Watched) -> None:
        if self._now() - watched.since < self.patience.taken or self._is_launching():
            return
        raise AssayError(
            f"no daemon launches the runs of this Dagster instance: {run.run_id} has been waiting for "
            f"{self._now() - watched.since:.0f} s. Start "
            "`dagster-daemon run -m rag_assay.orchestration.definitions` with the same DAGSTER_HOME "
            "and ASSAY_HOME, then run again; nothing is lost"
        )

    def _is_launching(self) -> bool:
        found = self.instance.get_daemon_statuses([QUEUE_DAEMON])
        return all(status.healthy for status in found.values())

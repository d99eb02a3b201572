"""Dagster's log of runs kept small: what the UI shows of today stays, what was superseded long ago goes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg

KEPT = 100  # runs that stay whole, and backfills
EVALUATIONS_KEPT = 7 * 24 * 3600  # seconds for which it is known why automation built something, or not
SLACK = 25  # runs beyond them before anything is done, so that it is done seldom
AT_ONCE = 500  # parameters of one query


def prune(instance: dg.DagsterInstance, *, kept: int = KEPT, slack: int = SLACK) -> int:
    """Forget the runs that are older than the newest ``kept``; return how many.

    A run whose materializations were all superseded is deleted. One that an asset's partition still points at
    stays, with its materializations and checks; only its step-by-step log goes. So the UI shows every
    partition as before, and the next run finds what is up to date. Runs that have not ended are left alone.
    With them go old backfills and what automation noted long ago; ticks are purged by Dagster itself, as
    `orchestration/settings.py` says.
    """
    if instance.get_runs_count() <= kept + slack:
        return 0
    ended = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    runs = [run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=ended))]  # newest first
    old = runs[kept:]
    needed = _pointed_at(instance)
    for run_id in old:
        shard = _shard(instance.event_log_storage, run_id)
        if run_id in needed:
            _empty(shard)
        else:
            instance.delete_run(run_id)
            _remove(shard)
    _forget_backfills(instance, kept)
    storage = instance.schedule_storage
    if storage is not None:
        storage.purge_asset_evaluations(time.time() - EVALUATIONS_KEPT)
    return len(old)


def _forget_backfills(instance: dg.DagsterInstance, kept: int) -> None:
    """Forget the backfills that have ended and are older than the newest ``kept``."""
    from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionsFilter
    from dagster._core.storage.runs.schema import BackfillTagsTable, BulkActionsTable

    wanted = BulkActionsFilter(statuses=list(BULK_ACTION_TERMINAL_STATUSES))
    old = [one.backfill_id for one in instance.get_backfills(wanted)[kept:]]  # newest first
    storage: Any = instance.run_storage
    for begin in range(0, len(old), AT_ONCE):
        some = old[begin : begin + AT_ONCE]
        with storage.connect() as connection:
            connection.execute(BackfillTagsTable.delete().where(BackfillTagsTable.c.backfill_id.in_(some)))
            connection.execute(BulkActionsTable.delete().where(BulkActionsTable.c.key.in_(some)))


def _pointed_at(instance: dg.DagsterInstance) -> set[str]:
    """Return the runs that hold the latest materialization of some partition."""
    storage: Any = instance.event_log_storage
    latest = [
        number
        for key in storage.all_asset_keys()
        for number in storage.get_latest_storage_id_by_partition(
            key, dg.DagsterEventType.ASSET_MATERIALIZATION
        ).values()
    ]
    return set(_runs_of(storage, latest))


def _runs_of(storage: Any, numbers: Sequence[int]) -> Iterable[str]:
    """Yield the runs of events, by their numbers in the log of all assets."""
    import sqlalchemy
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable as Events

    with storage.index_connection() as connection:
        for begin in range(0, len(numbers), AT_ONCE):
            some = numbers[begin : begin + AT_ONCE]
            found = sqlalchemy.select(Events.c.run_id).where(Events.c.id.in_(some)).distinct()
            yield from (row[0] for row in connection.execute(found))


def _shard(storage: Any, run_id: str) -> Path | None:
    """Return the file with a run's step-by-step log, where the log is one SQLite file a run."""
    place = getattr(storage, "path_for_shard", None)
    return Path(place(run_id)) if place and run_id else None


def _empty(shard: Path | None) -> None:
    """Drop a run's steps and keep its file, which a web server may have open."""
    if shard is None or not shard.exists():
        return
    with closing(sqlite3.connect(shard, isolation_level=None)) as connection:
        if connection.execute("DELETE FROM event_logs").rowcount:
            connection.execute("VACUUM")


def _remove(shard: Path | None) -> None:
    for ending in ("", "-wal", "-shm"):
        if shard is not None:
            Path(f"{shard}{ending}").unlink(missing_ok=True)

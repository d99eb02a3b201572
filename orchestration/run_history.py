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
LEFT = "assay/runs_left"  # key of Dagster's key-value table: how many runs there were after the last pruning


def prune(instance: dg.DagsterInstance, *, kept: int = KEPT, slack: int = SLACK) -> int:
    """Forget the runs that are older than the newest ``kept``; return how many.

    A run whose materializations were all superseded is deleted. One that an asset's partition still points at
    stays, with those materializations and its checks; its step-by-step log goes, and what was superseded of
    it. So the UI shows every partition as before, and the next run finds what is up to date. Runs that have
    not ended are left alone. With them go superseded observations of recipes and results of checks, old
    backfills and what automation noted long ago; ticks are purged by Dagster itself, as
    `orchestration/settings.py` says.

    Nothing is looked at until ``slack`` runs have come since the last time, however many had to stay then: a
    home whose partitions were built one a run would else look through all of these at each start.
    """
    left = instance.run_storage.get_cursor_values({LEFT}).get(LEFT, "0")
    if instance.get_runs_count() <= max(kept, int(left)) + slack:
        return 0
    ended = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    runs = [run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=ended))]  # newest first
    old = runs[kept:]
    latest = _latest(instance)
    needed = set(_runs_of(instance.event_log_storage, latest))
    for run_id in old:
        place = getattr(instance.event_log_storage, "path_for_shard", None)  # where a run has a SQLite file
        shard = Path(place(run_id)) if place and run_id else None
        if run_id in needed:
            _empty(shard)
        else:
            instance.delete_run(run_id)
            _remove(shard)
    _forget_superseded(instance, [run_id for run_id in old if run_id in needed], set(latest), kept)
    _forget_checks(instance, [run_id for run_id in old if run_id not in needed])
    _forget_backfills(instance, kept)
    storage = instance.schedule_storage
    if storage is not None:
        storage.purge_asset_evaluations(time.time() - EVALUATIONS_KEPT)
    instance.run_storage.set_cursor_values({LEFT: str(instance.get_runs_count())})
    return len(old)


def _forget_superseded(
    instance: dg.DagsterInstance, runs: Sequence[str], latest: set[int], kept: int
) -> None:
    """Forget what is not the latest of its partition in some runs, and of recipes, which belong to no run.

    latest: numbers of the events that partitions point at
    kept: superseded observations of recipes that stay, the newest
    """
    import sqlalchemy
    from dagster._core.storage.event_log.schema import AssetEventTagsTable as Tags
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable as Events

    storage: Any = instance.event_log_storage
    of_kind = Events.c.dagster_event_type.in_([kind.value for kind in _POINTED_AT])
    with storage.index_connection() as connection:

        def superseded(some: Sequence[str]) -> list[int]:
            wanted = sqlalchemy.select(Events.c.id).where(of_kind, Events.c.run_id.in_(some))
            found = connection.execute(wanted.order_by(Events.c.id.desc()))
            return [number for (number,) in found if number not in latest]

        gone = superseded([""])[kept:]
        for begin in range(0, len(runs), AT_ONCE):
            gone += superseded(runs[begin : begin + AT_ONCE])
        for begin in range(0, len(gone), AT_ONCE):
            numbers = gone[begin : begin + AT_ONCE]
            connection.execute(Tags.delete().where(Tags.c.event_id.in_(numbers)))
            connection.execute(Events.delete().where(Events.c.id.in_(numbers)))


def _forget_checks(instance: dg.DagsterInstance, runs: Sequence[str]) -> None:
    import sqlalchemy
    from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable as Checks

    storage: Any = instance.event_log_storage
    newest = sqlalchemy.select(sqlalchemy.func.max(Checks.c.id)).group_by(
        Checks.c.asset_key, Checks.c.check_name, Checks.c.partition
    )
    with storage.index_connection() as connection:
        latest = {number for (number,) in connection.execute(newest)}
        for begin in range(0, len(runs), AT_ONCE):
            of_runs = Checks.c.run_id.in_(runs[begin : begin + AT_ONCE])
            found = connection.execute(sqlalchemy.select(Checks.c.id).where(of_runs)).fetchall()
            gone = [number for (number,) in found if number not in latest]
            for at in range(0, len(gone), AT_ONCE):
                connection.execute(Checks.delete().where(Checks.c.id.in_(gone[at : at + AT_ONCE])))


def _forget_backfills(instance: dg.DagsterInstance, kept: int) -> None:
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


_POINTED_AT = (dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION)


def _latest(instance: dg.DagsterInstance) -> list[int]:
    storage: Any = instance.event_log_storage
    return [
        number
        for key in storage.all_asset_keys()
        for kind in _POINTED_AT
        for number in storage.get_latest_storage_id_by_partition(key, kind).values()
    ]


def _runs_of(storage: Any, numbers: Sequence[int]) -> Iterable[str]:
    import sqlalchemy
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable as Events

    with storage.index_connection() as connection:
        for begin in range(0, len(numbers), AT_ONCE):
            some = numbers[begin : begin + AT_ONCE]
            found = sqlalchemy.select(Events.c.run_id).where(Events.c.id.in_(some)).distinct()
            yield from (row[0] for row in connection.execute(found))


def _empty(shard: Path | None) -> None:
    if shard is None or not shard.exists():
        return
    with closing(sqlite3.connect(shard, isolation_level=None)) as connection:
        if connection.execute("DELETE FROM event_logs").rowcount:
            connection.execute("VACUUM")


def _remove(shard: Path | None) -> None:
    for ending in ("", "-wal", "-shm"):
        if shard is not None:
            Path(f"{shard}{ending}").unlink(missing_ok=True)

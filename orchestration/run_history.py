"""Dagster's log of runs kept small: runs whose materializations were all superseded are deleted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

import dagster as dg

KEPT = 100  # newest runs that always stay
SLACK = 25  # runs beyond them before anything is done
PAGE = 200  # events that are read at once
LEFT = "assay/runs_left"  # key of Dagster's key-value table: how many runs there were after the last pruning
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def prune(
    instance: dg.DagsterInstance, tags: Mapping[str, str], *, kept: int = KEPT, slack: int = SLACK
) -> int:
    """Delete runs with these tags that are older than the newest ``kept``; return how many.

    All others stay: the instance may be of several projects.

    A run that made the latest materialization of a partition stays, so that the UI shows every partition as
    before and the next run finds what is up to date. Runs that have not ended stay.

    Nothing is done until ``slack`` runs have come since the last time, however many had to stay then.
    """
    cursor, ours = f"{LEFT} {json.dumps(tags)}", dg.RunsFilter(tags=tags)
    left = instance.run_storage.get_cursor_values({cursor}).get(cursor, "0")
    if instance.get_runs_count(ours) <= max(kept, int(left)) + slack:
        return 0
    records = instance.get_run_records(dg.RunsFilter(statuses=ENDED, tags=tags))  # newest first
    runs = [record.dagster_run.run_id for record in records]
    old = [run_id for run_id in runs[kept:] if not _is_needed(instance, run_id)]
    for run_id in old:
        instance.delete_run(run_id)
    instance.run_storage.set_cursor_values({cursor: str(instance.get_runs_count(ours))})
    return len(old)


def _is_needed(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether the latest materialization of some partition is of a run."""
    cursor, has_more = None, True
    while has_more:
        page = instance.get_records_for_run(
            run_id, cursor, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION, limit=PAGE
        )
        cursor, has_more = page.cursor, page.has_more
        built = defaultdict[dg.AssetKey, set[str | None]](set)
        for record in page.records:
            if found := record.asset_materialization:
                built[found.asset_key].add(found.partition)
        if any(run_id in _latest_runs(instance, key, partitions) for key, partitions in built.items()):
            return True
    return False


def _latest_runs(instance: dg.DagsterInstance, key: dg.AssetKey, partitions: set[str | None]) -> set[str]:
    """Return the runs that made the latest materializations of partitions; None: of the whole asset."""
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    named = {partition for partition in partitions if partition is not None}
    wanted = dict(instance.get_latest_storage_id_by_partition(key, kind, named)) if named else {}
    found = (
        {
            record.run_id
            for record in instance.fetch_materializations(
                dg.AssetRecordsFilter(key, storage_ids=list(wanted.values())), limit=max(1, len(wanted))
            ).records
        }
        if wanted
        else set()
    )
    if None in partitions and (latest := instance.get_latest_materialization_event(key)):
        found.add(latest.run_id)
    return found

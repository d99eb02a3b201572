"""One run at a time in a workspace: its lock, its log, and the runs of killed processes."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import dagster as dg

from rag_assay.assets.engine.stage import Progress
from rag_assay.orchestration.interrupts import watch_interrupts
from rag_assay.orchestration.log_errors import plain_failures
from rag_assay.orchestration.names import WORKSPACE_TAG
from rag_assay.orchestration.runs.run_monitor import close_lost_runs
from rag_assay.orchestration.settings import instance_folder
from rag_assay.warehouse.errors import LockedError
from rag_assay.warehouse.garbage_collection import marked
from rag_assay.warehouse.paths import Home

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


@contextmanager
def hold_home(
    home: Home,
    opened: Callable[[], dg.DagsterInstance],
    progress: Progress,
    run_id: str | None = None,
) -> Iterator[tuple[dg.DagsterInstance, Callable[[], bool]]]:
    """Hold a home for one walk; yield Dagster's instance and what says whether the walk was interrupted.

    What killed processes have left is tidied up before, and old runs of this workspace are deleted after it.

    opened: gives the instance, once the home is ours
    run_id: the run in which this happens, where there is one already
    """
    with ExitStack() as stack:
        interrupted = stack.enter_context(watch_interrupts())
        stack.enter_context(alone(home, progress))
        stack.enter_context(marked(home))
        stack.enter_context(plain_failures(instance_folder(home)))
        instance = opened()
        if run_id is None:
            stack.enter_context(instance)
        close_dead_runs(instance, home)
        close_lost_runs(instance)
        if run_id is not None:
            instance.add_run_tags(run_id, workspace_tag(home))
        yield instance, interrupted
        prune(instance, workspace_tag(home))


def workspace_tag(home: Home) -> dict[str, str]:
    """Return the tag of a run that holds the lock of a workspace, which others of this machine may not."""
    return {WORKSPACE_TAG: f"{platform.node()}:{home.root}"}


@contextmanager
def alone(home: Home, progress: Progress, patience: float = 600) -> Iterator[None]:
    """Let one run or rebuild at a time work on a home; others wait, and are told for whom."""
    home.root.mkdir(parents=True, exist_ok=True)
    path = home.root / "run.lock"
    with path.open("a+") as file:
        deadline = time.monotonic() + patience
        notified = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                if time.monotonic() > deadline:
                    raise LockedError(
                        f"{home.root} is in use by another run (process {holder}); waited {patience:g} s"
                    ) from None
                if not notified:
                    progress(f"waiting for another run on {home.root} (process {holder}) …", 0, 0)
                    notified = True
                time.sleep(0.2)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def close_dead_runs(instance: dg.DagsterInstance, home: Home) -> int:
    """Mark killed runs of this workspace as failed; call it before the own run has the tag."""
    under_way = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
    dead = instance.get_runs(dg.RunsFilter(statuses=under_way, tags=workspace_tag(home)))
    for run in dead:
        instance.report_run_failed(
            run, "its process ended before the run; the next run continues from the stored results"
        )
    return len(dead)

"""One run at a time in a workspace: its lock, its log, and the runs of killed processes."""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import dagster as dg

from rag_assay.assets.engine.stage import Progress
from rag_assay.orchestration.interrupts import watch_interrupts
from rag_assay.orchestration.log_errors import plain_failures
from rag_assay.orchestration.names import WORKSPACE_TAG
from rag_assay.orchestration.run_history import prune
from rag_assay.orchestration.runs.run_monitor import close_lost_runs
from rag_assay.orchestration.settings import instance_folder
from rag_assay.warehouse.errors import LockedError
from rag_assay.warehouse.garbage_collection import marked
from rag_assay.warehouse.paths import Home


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
    """Mark as failed the runs that held this workspace and were killed; return how many there were.

    To be called by the process that holds its lock, before its own run has the tag.
    """
    under_way = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING]
    dead = instance.get_runs(dg.RunsFilter(statuses=under_way, tags=workspace_tag(home)))
    for run in dead:
        instance.report_run_failed(
            run, "its process ended before the run; the next run continues from the stored results"
        )
    return len(dead)

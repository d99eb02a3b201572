"""One run at a time in a workspace: its lock, its log, and the runs of killed processes."""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import dagster as dg

from rag_assay.assets.engine.stage import Progress
from rag_assay.orchestration.interrupts import watch_interrupts
from rag_assay.orchestration.log_errors import plain_failures
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

    What killed processes have left is tidied up before, and the log of runs is pruned after it.

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
        close_dead_runs(instance, run_id)
        close_lost_runs(instance)
        yield instance, interrupted
        prune(instance)


PID_TAG = "assay/pid"
HOST_TAG = "assay/host"


def process_tags() -> dict[str, str]:
    """Return the tags by which it is found out whether the process of a run still lives."""
    return {PID_TAG: str(os.getpid()), HOST_TAG: this_host()}


@cache
def this_host() -> str:
    """Return the name of this machine since it was started, for which numbers of processes hold."""
    with suppress(OSError):  # a system without it: the name alone
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{platform.node()}/{boot}"
    return platform.node()


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


def close_dead_runs(instance: dg.DagsterInstance, besides: str | None = None) -> int:
    """Mark as failed the runs of ours whose process is gone (killed); return how many there were.

    Runs of other machines are theirs. Of runs of earlier versions, which name no machine, those are taken for
    ours whose process is not here.

    besides: a run that is this process' own
    """
    runs = instance.get_runs(
        dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING])
    )
    dead = [
        run
        for run in runs
        if run.run_id != besides
        and PID_TAG in run.tags
        and run.tags.get(HOST_TAG, this_host()) == this_host()
        and not _alive(int(run.tags[PID_TAG]))
    ]
    for run in dead:
        instance.report_run_failed(
            run, "its process ended before the run did; the next run goes on from what it stored"
        )
    return len(dead)


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False  # an earlier process with our number: but for the run that is named, we have none yet
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

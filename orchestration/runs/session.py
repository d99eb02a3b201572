"""What is around a walk, whoever starts it: the home's lock, a quick log, interruptions that are not lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import dagster as dg

from rag_assay.assets.engine.stage import Progress
from rag_assay.orchestration.event_log import plain_failures, shared_engines
from rag_assay.orchestration.interrupts import watch_interrupts
from rag_assay.orchestration.run_history import prune
from rag_assay.orchestration.runs.home_lock import alone, close_dead_runs
from rag_assay.orchestration.runs.run_monitor import close_lost_runs
from rag_assay.orchestration.settings import instance_folder
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

    Raises:
        LockedError: another one holds the home.
        AssayError: Dagster's log cannot be used.
    """
    with ExitStack() as stack:
        interrupted = stack.enter_context(watch_interrupts())
        stack.enter_context(alone(home, progress))
        stack.enter_context(marked(home))
        stack.enter_context(plain_failures(instance_folder(home)))
        stack.enter_context(shared_engines())
        instance = opened()
        if run_id is None:
            stack.enter_context(instance)
        close_dead_runs(instance, run_id)
        close_lost_runs(instance)
        yield instance, interrupted
        prune(instance)

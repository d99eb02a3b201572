"""Ctrl-C during a run: it is never lost, and never shown as a stack trace.

Python raises the interruption wherever the program happens to be. Inside a finalizer, or where a library
tidies up, it is printed with its stack and then dropped, or logged and raised on; and Dagster forgets one
that comes while it opens or closes a run. So what arrived is noted apart from what was raised.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dagster import DagsterExecutionInterruptedError

from rag_assay.orchestration.shutdown import StopSignals

INTERRUPTIONS = (KeyboardInterrupt, DagsterExecutionInterruptedError)


@contextmanager
def watch_interrupts() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether a SIGINT or SIGTERM has arrived since; in another thread: never."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    signals = StopSignals.current or StopSignals()
    before = len(signals.arrived())
    try:
        with _without_their_stacks():
            yield lambda: len(signals.arrived()) > before
    finally:
        if signals is not StopSignals.current:
            signals.close()


@contextmanager
def _without_their_stacks() -> Iterator[None]:
    hook = sys.unraisablehook

    def quietly(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, INTERRUPTIONS):
            hook(unraisable)

    sys.unraisablehook = quietly
    try:
        with only_critical("sqlalchemy.pool"):  # logs what it meets while it closes, and raises it on
            yield
    finally:
        sys.unraisablehook = hook


@contextmanager
def only_critical(name: str) -> Iterator[None]:
    """Hold a logger back in the block."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)

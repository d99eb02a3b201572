"""Cooperative cancellation for threads that wait on servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep

LOOK = 0.2  # seconds between two looks whether the work is cancelled


class CancelledError(Exception):
    """The work of a thread was cancelled: by an interrupt, or because another call failed."""


class _OfThread(threading.local):
    stopped: Callable[[], bool] = staticmethod(lambda: False)


_of_thread = _OfThread()


def is_cancelled() -> bool:
    return _of_thread.stopped()


def stop_sign() -> Callable[[], bool]:
    return _of_thread.stopped


@contextmanager
def cancel_scope(stopped: Callable[[], bool]) -> Iterator[None]:
    """Cancel the calling thread's work in the block as soon as ``stopped`` returns True."""
    before = _of_thread.stopped
    _of_thread.stopped = stopped
    try:
        yield
    finally:
        _of_thread.stopped = before


def cancellable_sleep(seconds: float) -> None:
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0:
        if is_cancelled():
            raise CancelledError
        sleep(min(left, LOOK))

"""Waiting for servers: whoever waits for what nobody wants any more stops waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep

LOOK = 0.2  # seconds after which whoever waits looks whether it is still wanted


class CancelledError(Exception):
    """What a thread was waiting for is not wanted any more: it was interrupted, or another call failed."""


class _OfThread(threading.local):
    stopped: Callable[[], bool] = staticmethod(lambda: False)


_of_thread = _OfThread()


def is_cancelled() -> bool:
    """Return whether nobody wants what the calling thread works for."""
    return _of_thread.stopped()


def stop_sign() -> Callable[[], bool]:
    """Return what says whether the calling thread's work is unwanted, for threads that work for it."""
    return _of_thread.stopped


@contextmanager
def cancel_scope(stopped: Callable[[], bool]) -> Iterator[None]:
    """Let the calling thread's work be unwanted as soon as ``stopped`` says so."""
    before = _of_thread.stopped
    _of_thread.stopped = stopped
    try:
        yield
    finally:
        _of_thread.stopped = before


def cancellable_sleep(seconds: float) -> None:
    """Sleep for so long.

    Raises:
        UnwantedError: nobody wants what the thread works for.
    """
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0:
        if is_cancelled():
            raise CancelledError
        sleep(min(left, LOOK))

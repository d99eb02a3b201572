"""Ends this process within seconds of a SIGINT or SIGTERM, whatever its threads do.

Python runs a signal's handler in the main thread, between two of its own instructions. That is late where the
thread is in a library (a batch that is embedded, a wait without end), and never where a library swallows the
exception. So a thread of its own hears of each signal from the system, and ends the process when it is not
ended in time. That is as safe as `kill -9`: what is committed stays, the system releases locks, child
processes end with their parent, and the next run closes the Dagster run.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from typing import NoReturn

STOPPING = (signal.SIGINT, signal.SIGTERM)
STOPPED = 130
SENTENCE = "stopped. Finished results are stored; run the same command to continue."
GRACE = 4.0  # seconds in which a command ends in good order
SAME = 0.5  # seconds within which further signals are the same request: `timeout` sends each one twice
WAKE = (0.2, 1.0, 2.0)  # seconds after which the main thread is woken from a wait that it began too late
LAST_RESORT = 0.7  # seconds later the process ends even where a library never lets another thread run
_SHOW_CURSOR = "\x1b[?25h"

_is_told = False
_grace: dict[int, float] = dict.fromkeys(STOPPING, GRACE)


class StopSignals:
    """Counts the SIGINTs and SIGTERMs of this process as they arrive, whatever handles them.

    To be made in the main thread. The interpreter writes each signal's number to a pipe before any handler
    runs, so that none is lost.
    """

    current: StopSignals | None = None

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        for end in (self.reading, self._writing):
            os.set_blocking(end, False)
        self._earlier = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._lock = threading.Lock()
        self._arrived: list[int] = []

    def arrived(self) -> list[int]:
        with self._lock:
            with suppress(BlockingIOError):
                self._arrived += [number for number in os.read(self.reading, 4096) if number in STOPPING]
            return list(self._arrived)

    def close(self) -> None:
        signal.set_wakeup_fd(self._earlier)
        os.close(self.reading)
        os.close(self._writing)


def guard() -> StopSignals:
    """Watch over this process until its end; to be called once, in the main thread."""
    signals = StopSignals.current = StopSignals()
    os.register_at_fork(after_in_child=_forget)
    signal.signal(signal.SIGURG, lambda *_: None)  # that of `WAKE`: it ends a wait, and changes nothing
    threading.Thread(target=_watch, args=(signals,), name="shutdown", daemon=True).start()
    return signals


def stopped_sentence() -> str:
    global _is_told  # noqa: PLW0603 -- of this process
    _is_told = True
    return SENTENCE


def was_stopped(*numbers: int) -> bool:
    """Return whether one of these signals has arrived; none: any that stops."""
    signals = StopSignals.current
    return signals is not None and not set(numbers or STOPPING).isdisjoint(signals.arrived())


@contextmanager
def grace(seconds: float, *numbers: int) -> Iterator[None]:
    """Give the block so many seconds to end after these signals (none: all); `inf`: it goes on."""
    before = dict(_grace)
    _grace.update(dict.fromkeys(numbers or STOPPING, seconds))
    try:
        yield
    finally:
        _grace.update(before)


def end_at_once_after(code: list[int]) -> None:
    """Let the process end as soon as all that is registered for its exit is done, with ``code[0]``.

    The interpreter would then take its modules and objects apart, which takes a second and may wait for
    threads of libraries.
    """
    atexit.register(_leave, code)  # what is registered first is called last


def _leave(code: list[int]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            pass
        except (OSError, ValueError) as error:  # a full disk, a closed stream
            code[0] = code[0] or 1
            _write(f"error: {getattr(error, 'strerror', None) or error}\n")
    os._exit(code[0])


def _forget() -> None:
    signal.set_wakeup_fd(-1)
    StopSignals.current = None


def _watch(signals: StopSignals) -> None:
    first, allowed, n_seen = 0.0, inf, 0
    wake: list[float] = []
    arriving = select.poll()  # `select` refuses descriptors above 1,023, which a server may have
    arriving.register(signals.reading, select.POLLIN)
    while True:
        arriving.poll(SAME * 1000)  # another thread may read what has arrived
        now = monotonic()
        arrived = signals.arrived()
        for number in arrived[n_seen:]:
            if allowed < inf and now - first > SAME:
                _end()
            if allowed == inf:
                first, allowed, wake = now, _grace[number], list(WAKE)
                if allowed < inf:  # ends the process without the interpreter, which a library may hold
                    null = os.open(os.devnull, os.O_WRONLY)
                    faulthandler.dump_traceback_later(allowed + LAST_RESORT, exit=True, file=null)
        n_seen = len(arrived)
        if allowed < inf and now - first > allowed:
            _end()
        while wake and now - first > wake[0]:
            wake.pop(0)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)


def _end() -> NoReturn:
    cursor = _SHOW_CURSOR if os.isatty(2) else ""
    _write(cursor if _is_told else f"{cursor}\n{SENTENCE}\n")
    os._exit(STOPPED)


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, text.encode())

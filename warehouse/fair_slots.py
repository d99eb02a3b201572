"""Slots that threads are granted in the order in which they asked: no waiter loses its place."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rag_assay.warehouse.cancellation import LOOK, CancelledError, stop_sign


class _Ticket:
    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        self.is_cancelled = is_cancelled
        self.is_granted = False
        self.decided = threading.Event()

    def decide(self, *, granted: bool) -> None:
        self.is_granted = granted
        self.decided.set()


class FairSlots:
    """A thread-safe semaphore that grants in the order of asking; cancelled waiters are passed over."""

    def __init__(self, slots: int = 1) -> None:
        self._free = slots
        self._waiting: deque[_Ticket] = deque()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @contextmanager
    def slot(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self, timeout: float | None = None, *, cancellable: bool = True) -> bool:
        """Wait for a slot; return whether it was granted within `timeout` seconds. Default: no limit."""
        is_cancelled = stop_sign() if cancellable else lambda: False
        with self._lock:
            if self._free and not self._waiting and not is_cancelled():
                self._free -= 1
                return True
        ticket = _Ticket(is_cancelled)
        deadline = None if timeout is None else monotonic() + timeout
        with self._lock:
            self._waiting.append(ticket)
            self._grant()
        try:
            while not ticket.decided.is_set():
                left = LOOK if deadline is None else min(LOOK, deadline - monotonic())
                # In intervals, for a signal that comes just before an endless wait does not end it. The
                # place is kept meanwhile.
                if left <= 0 or (not ticket.decided.wait(left) and ticket.is_cancelled()):
                    break
        except BaseException:
            self._leave(ticket)
            if ticket.is_granted:
                self.release()
            raise
        self._leave(ticket)
        if ticket.is_granted:
            return True
        if ticket.decided.is_set() or ticket.is_cancelled():
            raise CancelledError
        return False

    def release(self) -> None:
        with self._lock:
            self._free += 1
            self._grant()

    def drop_cancelled(self) -> None:
        with self._lock:
            for ticket in [one for one in self._waiting if one.is_cancelled()]:
                self._waiting.remove(ticket)
                ticket.decide(granted=False)

    def _grant(self) -> None:
        while self._free and self._waiting:
            ticket = self._waiting.popleft()
            is_wanted = not ticket.is_cancelled()
            self._free -= is_wanted
            ticket.decide(granted=is_wanted)

    def _leave(self, ticket: _Ticket) -> None:
        with self._lock:
            if not ticket.decided.is_set():
                self._waiting.remove(ticket)

"""Several pieces of work at once, of which one computes at a time; others wait for servers meanwhile."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic
from typing import Generic, TypeVar

from rag_assay.warehouse.cancellation import CancelledError, cancel_scope
from rag_assay.warehouse.fair_slots import FairSlots

Item = TypeVar("Item")
Result = TypeVar("Result")

GLANCE = 0.02  # seconds after which it is looked whether there is room for a further piece of work
GRACE = 2.5  # seconds that pieces under way are waited for after a cancellation


class _OfThread(threading.local):
    turns: _Turns[object] | OneAtATime | None = None


_of_thread = _OfThread()


@contextmanager
def release_turn(calls: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Let another piece of work compute while the calling thread waits; no more than a block elsewhere."""
    turns = _of_thread.turns
    if turns is None:
        yield
        return
    _of_thread.turns = None
    turns.rest(calls)
    try:
        yield
    finally:
        turns.go_on(calls)
        _of_thread.turns = turns


class OneAtATime:
    """Lets the threads of a server compute one at a time; one that waits for a model lets others go on."""

    def __init__(self) -> None:
        self._slot = FairSlots()

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self._slot.slot():
            before, _of_thread.turns = _of_thread.turns, self
            try:
                yield
            finally:
                _of_thread.turns = before

    def drop_cancelled(self) -> None:
        self._slot.drop_cancelled()

    def rest(self, calls: Callable[[], int]) -> None:
        self._slot.release()

    def go_on(self, calls: Callable[[], int]) -> None:
        self._slot.acquire(cancellable=False)


def run_cooperatively(
    work: Callable[[Item], Result], items: Sequence[Item], waits: Callable[[Item], bool], room: int
) -> Iterator[Result]:
    """Yield ``work(item)`` of each item as it ends; after an error none begins, and the others are cancelled.

    waits: whether an item waits for servers and gets its own thread; the calling thread does the rest
    """
    if sum(map(waits, items)) < 2:
        for item in items:
            yield work(item)
        return
    turns: _Turns[Result] = _Turns()
    try:
        for item in items:
            if not waits(item):
                yield work(item)
                continue
            while not turns.has_room(room):
                yield from turns.ended()
                turns.wait(lambda: turns.has_room(room))
            turns.begin(lambda item=item: work(item))  # type: ignore[misc]
        while turns.under_way:
            turns.wait(lambda: False)
            yield from turns.ended()
    finally:
        turns.stop()


class _Turns(Generic[Result]):
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._turn = FairSlots(slots=0)
        self._is_mine = True  # the turn is that of the thread that begins pieces
        self._is_stopped = False
        self._computing = 0  # threads that do not rest
        self._resting: list[Callable[[], int]] = []
        self._ended: deque[Future[Result]] = deque()
        self._threads: list[threading.Thread] = []
        self.under_way = 0  # pieces whose result was not taken; their threads may live a little longer

    def has_room(self, room: int) -> bool:
        return not self._computing and sum(calls() for calls in self._resting) < room

    def begin(self, work: Callable[[], Result]) -> None:
        with self._changed:
            self._computing += 1
        self.under_way += 1
        thread = threading.Thread(target=self._work, args=(work,), name="piece", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, work: Callable[[], Result]) -> None:
        with cancel_scope(lambda: self._is_stopped):
            ended: Future[Result] = Future()
            try:
                with self._turn.slot():
                    _of_thread.turns = self  # type: ignore[assignment]
                    ended.set_result(work())
            except BaseException as error:  # raised again where the results are taken
                ended.set_exception(error)
            with self._changed:
                self._computing -= 1
                self._ended.append(ended)
                self._changed.notify_all()

    def wait(self, ready: Callable[[], bool]) -> None:
        self._is_mine = False  # after an interrupt, too: nothing is waited for then
        self._turn.release()
        with self._changed:
            while not (self._ended or ready()):
                self._changed.wait(GLANCE)
        self._is_mine = self._turn.acquire(cancellable=False)

    def ended(self) -> Iterator[Result]:
        while self._ended:
            ended = self._ended.popleft()
            self.under_way -= 1
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            yield ended.result()

    def rest(self, calls: Callable[[], int]) -> None:
        with self._changed:
            self._computing -= 1
            self._resting.append(calls)
            self._changed.notify_all()
        self._turn.release()

    def go_on(self, calls: Callable[[], int]) -> None:
        with self._changed:
            self._resting.remove(calls)
            self._computing += 1
        self._turn.acquire(cancellable=False)
        if self._is_stopped:
            raise CancelledError

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
        self._turn.drop_cancelled()
        if self._is_mine:
            self._turn.release()
        deadline = monotonic() + GRACE
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - monotonic()))

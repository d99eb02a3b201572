"""Runs calls to servers side by side: results in order, and an interrupt is handled at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Generic, TypeVar

from rag_assay.warehouse.cancellation import LOOK, CancelledError, cancel_scope, is_cancelled, stop_sign
from rag_assay.warehouse.cooperative_scheduler import release_turn
from rag_assay.warehouse.inference.streaming import draft_listener, listener

Item = TypeVar("Item")
Result = TypeVar("Result")

GRACE = 2.0  # seconds that calls under way are waited for after a cancellation


def side_by_side(
    call: Callable[[Item], Result], items: Iterable[Item], at_once: int, *, first_alone: bool = False
) -> Iterator[Result]:
    """Yield ``call(item)`` of each item, in their order, as soon as it and those before are done; an error
    is raised in its place. After an error or an interrupt no new call begins.

    at_once: calls in flight at most; 1: the calling thread makes them
    first_alone: the others wait for the first, so that what fails all of them is met once
    """
    tasks = list(items)
    begun = 0
    if first_alone and tasks:
        with release_turn(lambda: len(tasks)):
            first = call(tasks[0])
        yield first
        begun = 1
    if at_once == 1 or len(tasks) - begun == 1:
        for task in tasks[begun:]:
            yield call(task)
        return
    lanes = _Lanes(call, tasks[begun:])
    try:
        lanes.start(at_once)
        for place in range(len(tasks) - begun):
            yield lanes.result(place)
    finally:
        lanes.stop()


class _Lanes(Generic[Item, Result]):
    def __init__(self, call: Callable[[Item], Result], tasks: Sequence[Item]) -> None:
        self._call = call
        self._tasks = tasks
        self._next = self._n_ended = 0
        self._is_stopped = False
        self._is_unwanted = stop_sign()  # as the work of the thread that wants the results is
        self._listener = listener()
        self._ended: dict[int, Future[Result]] = {}
        self._wanted = 0  # the task whose result is waited for
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []

    def start(self, at_once: int) -> None:
        for _ in range(min(at_once, len(self._tasks))):
            thread = threading.Thread(target=self._work, name="call", daemon=True)
            self._threads.append(thread)
            thread.start()

    def result(self, place: int) -> Result:
        self._wanted = place
        if place not in self._ended:
            with release_turn(lambda: len(self._tasks) - self._n_ended), self._changed:
                while place not in self._ended:
                    if is_cancelled():
                        raise CancelledError
                    # Repeatedly, for a signal that comes just before a wait without end does not end it.
                    self._changed.wait(LOOK)
        with self._changed:
            ended = self._ended.pop(place)
        return ended.result()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
        deadline = monotonic() + GRACE
        for thread in self._threads:
            if thread.is_alive():  # an interrupt may come while one is started
                thread.join(max(0.0, deadline - monotonic()))

    def _work(self) -> None:
        stopped = cancel_scope(lambda: self._is_stopped or self._is_unwanted())
        with stopped, draft_listener(self._listener):
            while (place := self._take()) is not None:
                ended: Future[Result] = Future()
                try:
                    ended.set_result(self._call(self._tasks[place]))
                except BaseException as error:  # raised again where the result is asked for
                    ended.set_exception(error)
                with self._changed:
                    self._ended[place] = ended
                    self._n_ended += 1
                    if place == self._wanted:
                        self._changed.notify_all()

    def _take(self) -> int | None:
        with self._changed:
            if self._is_stopped or self._next == len(self._tasks):
                return None
            self._next += 1
            return self._next - 1

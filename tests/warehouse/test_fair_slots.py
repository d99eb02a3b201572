"""Slots are granted in the order of asking; who is cancelled or too late leaves, and takes nothing along."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rag_assay.warehouse.cancellation import LOOK, CancelledError, cancel_scope
from rag_assay.warehouse.cooperative_scheduler import OneAtATime, release_turn
from rag_assay.warehouse.fair_slots import FairSlots


def never() -> bool:
    return False


class Threads:
    """Threads that queue one after another, so that their order is known."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots = slots
        self.granted: list[int] = []
        self.cancelled: list[int] = []
        self.threads: list[threading.Thread] = []

    def queue(self, number: int, is_cancelled: Callable[[], bool] = never) -> threading.Thread:
        def work() -> None:
            with cancel_scope(is_cancelled):
                try:
                    with self.slots.slot():
                        self.granted.append(number)
                except CancelledError:
                    self.cancelled.append(number)

        before = self.slots.waiting
        thread = threading.Thread(target=work)
        thread.start()
        while self.slots.waiting == before and thread.is_alive():
            pass
        self.threads.append(thread)
        return thread

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


@pytest.fixture
def held() -> Threads:
    """Threads before a slot that the test holds."""
    slots = FairSlots()
    assert slots.acquire(0)
    return Threads(slots)


def test_a_waiter_keeps_its_place_however_long_it_waits(held: Threads) -> None:
    for number in range(32):
        held.queue(number)
    threading.Event().wait(3 * LOOK)  # each has looked whether it is still wanted
    held.slots.release()
    held.join()
    assert held.granted == list(range(32))


def test_who_gives_a_slot_back_and_asks_again_goes_behind_those_who_wait(held: Threads) -> None:
    for number in range(3):
        held.queue(number)
    held.slots.release()
    assert held.slots.acquire()
    assert held.granted == [0, 1, 2]
    held.slots.release()


def test_the_cancelled_leave_and_the_order_of_the_others_stays(held: Threads) -> None:
    gone = threading.Event()
    for number in range(6):
        held.queue(number, gone.is_set if number % 2 else never)
    gone.set()
    assert held.slots.waiting == 6
    held.slots.drop_cancelled()
    assert held.slots.waiting == 3
    held.slots.release()
    held.join()
    assert held.granted == [0, 2, 4]
    assert sorted(held.cancelled) == [1, 3, 5]
    assert held.slots.acquire(0), "nothing was taken along"


def test_a_slot_is_never_given_to_the_cancelled(held: Threads) -> None:
    gone = threading.Event()
    first, second = held.queue(0, gone.is_set), held.queue(1)
    gone.set()
    held.slots.release()
    for thread in (first, second):
        thread.join()
    assert (held.granted, held.cancelled) == ([1], [0])
    with cancel_scope(gone.is_set), pytest.raises(CancelledError):
        held.slots.acquire()
    assert held.slots.acquire(0)


def test_who_is_too_late_takes_no_slot(held: Threads) -> None:
    assert not held.slots.acquire(0)
    assert not held.slots.acquire(0.01)
    assert held.slots.waiting == 0
    held.slots.release()
    assert held.slots.acquire(0)


def test_as_many_as_there_are_slots_hold_one() -> None:
    slots = FairSlots(3)
    assert [slots.acquire(0) for _ in range(4)] == [True, True, True, False]
    slots.release()
    assert slots.acquire(0)


def test_threads_that_wait_for_a_server_queue_again_behind_the_others() -> None:
    turns, order, answered = OneAtATime(), list[str](), threading.Event()
    rests, asks = threading.Event(), threading.Event()

    def model() -> None:
        with turns.turn():
            order.append("model")
            with release_turn():
                rests.set()
                answered.wait()
            order.append("model goes on")

    def other() -> None:
        rests.wait()
        with turns.turn():
            order.append("other")
            asks.set()
            answered.set()

    threads = [threading.Thread(target=work) for work in (model, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order == ["model", "other", "model goes on"]
    assert asks.is_set()

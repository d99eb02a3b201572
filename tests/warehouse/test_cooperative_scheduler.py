"""Pieces of work by turns: one computes at a time, those that wait for servers do so side by side."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from rag_assay.warehouse.cancellation import CancelledError, cancellable_sleep, is_cancelled
from rag_assay.warehouse.cooperative_scheduler import _Turns, release_turn, run_cooperatively


class Pieces:
    """Computes, waits as for servers, computes again; knows who computes and who waits."""

    def __init__(self, seconds: float = 0.05, calls: int = 1, wrong: int | None = None) -> None:
        self.seconds, self.calls, self.wrong = seconds, calls, wrong
        self.computing = self.waiting = self.most_computing = self.most_waiting = 0
        self.begun: list[int] = []
        self.threads: set[str] = set()
        self.lock = threading.Lock()

    def compute(self) -> None:
        with self.lock:
            self.computing += 1
            self.most_computing = max(self.most_computing, self.computing)
        time.sleep(0.005)
        with self.lock:
            self.computing -= 1

    def __call__(self, number: int) -> int:
        self.begun.append(number)
        self.threads.add(threading.current_thread().name)
        self.compute()
        with release_turn(lambda: self.calls):
            with self.lock:
                self.waiting += 1
                self.most_waiting = max(self.most_waiting, self.waiting)
            time.sleep(self.seconds)
            with self.lock:
                self.waiting -= 1
        self.compute()
        if number == self.wrong:
            raise ValueError(f"number {number}")
        return 2 * number


def test_all_are_done_one_computes_and_many_wait() -> None:
    pieces = Pieces()
    found = []
    for result in run_cooperatively(pieces, range(20), lambda _n: True, 8):
        pieces.compute()  # as whoever takes the results does
        found.append(result)
    assert sorted(found) == [2 * number for number in range(20)]
    assert pieces.most_computing == 1
    assert 2 <= pieces.most_waiting <= 8


@pytest.mark.timeout(30)
def test_a_thread_that_ends_later_than_its_piece_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine its result may be taken before it is gone."""
    work = _Turns._work

    def lingering(self: _Turns[int], piece: Callable[[], int]) -> None:
        work(self, piece)
        time.sleep(0.2)

    monkeypatch.setattr(_Turns, "_work", lingering)
    assert sorted(run_cooperatively(Pieces(), range(3), lambda _n: True, 8)) == [0, 2, 4]


def test_who_waits_for_many_calls_leaves_no_room() -> None:
    pieces = Pieces(calls=8)
    assert len(list(run_cooperatively(pieces, range(6), lambda _n: True, 8))) == 6
    assert pieces.most_waiting == 1
    assert pieces.begun == sorted(pieces.begun)


def test_what_does_not_wait_is_done_by_the_caller_alone() -> None:
    pieces = Pieces()
    even = {n for n in range(12) if n % 2 == 0}
    assert sorted(run_cooperatively(pieces, range(12), lambda n: n in even, 8)) == [2 * n for n in range(12)]
    assert pieces.most_computing == 1
    assert "MainThread" in pieces.threads
    alone = Pieces()
    assert list(run_cooperatively(alone, range(3), lambda n: n == 1, 8)) == [0, 2, 4]
    assert alone.threads == {"MainThread"}


def test_an_error_is_raised_and_no_further_piece_begins() -> None:
    pieces = Pieces(wrong=3)
    with pytest.raises(ValueError, match="number 3"):
        list(run_cooperatively(pieces, range(1_000), lambda _n: True, 4))
    begun = len(pieces.begun)
    time.sleep(0.2)
    assert len(pieces.begun) == begun < 30


def test_who_takes_no_further_result_leaves_the_rest_unwanted() -> None:
    ended: list[str] = []

    def work(number: int) -> int:
        if number == 0:
            return 0
        try:
            with release_turn(lambda: 1):
                cancellable_sleep(60)
        except CancelledError:
            ended.append("unwanted" if is_cancelled() else "wanted")
            raise
        return number

    results = run_cooperatively(work, range(4), lambda _n: True, 8)
    assert next(results) == 0
    begin = time.monotonic()
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begin < 8
    assert set(ended) <= {"unwanted"}


def test_resting_is_nothing_elsewhere() -> None:
    with release_turn(lambda: 1), release_turn():
        assert not is_cancelled()


INTERRUPTED = """
import sys, threading, time
from rag_assay.warehouse import cooperative_scheduler as module
from rag_assay.warehouse.cancellation import cancellable_sleep
module.GRACE = 1.0
begun = threading.Semaphore(0)
def work(number):
    with module.release_turn(lambda: 1):
        print("begun", flush=True)
        cancellable_sleep(600) if number % 2 else time.sleep(600)
try:
    list(module.run_cooperatively(work, range(100), lambda n: True, 4))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(3)
"""


def test_an_interrupt_ends_the_process_though_pieces_hang() -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait(60) == 3

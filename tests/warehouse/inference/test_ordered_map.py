"""Calls side by side: in order, bounded, interruptible, none thrown away for a neighbour's sake."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from rag_assay.warehouse.inference.ordered_map import side_by_side


class Counted:
    """Doubles its number after a while; counts the calls under way, and keeps those that ended."""

    def __init__(self, seconds: float = 0.01, wrong: int | None = None) -> None:
        self.seconds = seconds
        self.wrong = wrong
        self.under_way = self.most = 0
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.lock = threading.Lock()

    def __call__(self, number: int) -> int:
        with self.lock:
            self.begun.append(number)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(self.seconds * (1 + number % 3))
        with self.lock:
            self.under_way -= 1
            self.ended.append(number)
        if number == self.wrong:
            raise ValueError(f"number {number}")
        return 2 * number


@pytest.mark.parametrize("at_once", [1, 2, 8, 100])
def test_results_come_in_order_and_no_more_calls_than_allowed_are_in_flight(at_once: int) -> None:
    call = Counted()
    assert list(side_by_side(call, range(30), at_once)) == [2 * number for number in range(30)]
    assert call.most <= at_once
    assert (call.most > 1) == (at_once > 1)
    assert sorted(call.begun) == list(range(30))


def test_nothing_to_do_starts_nothing() -> None:
    assert list(side_by_side(Counted(), [], 8)) == []
    assert list(side_by_side(Counted(), [], 8, first_alone=True)) == []


def test_the_first_call_may_be_made_alone() -> None:
    call = Counted()
    results = side_by_side(call, range(9), 4, first_alone=True)
    assert next(results) == 0
    assert (call.begun, call.most) == ([0], 1)
    assert list(results) == [2 * number for number in range(1, 9)]


@pytest.mark.parametrize("at_once", [1, 4])
def test_an_error_is_raised_in_its_place_and_no_further_call_begins(at_once: int) -> None:
    call = Counted(wrong=3)
    results = side_by_side(call, range(1_000), at_once)
    assert [next(results) for _ in range(3)] == [0, 2, 4]
    with pytest.raises(ValueError, match="number 3"):
        next(results)
    assert len(call.begun) < 20
    assert sorted(call.ended) == sorted(call.begun), "those under way were waited for"


def test_who_takes_no_further_result_begins_no_further_call() -> None:
    call = Counted()
    results = side_by_side(call, range(1_000), 4)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    begun = len(call.begun)
    time.sleep(0.1)
    assert len(call.begun) == begun < 20


INTERRUPTED = """
import os, sys, time
from rag_assay.warehouse.inference import ordered_map as module
module.GRACE = 0.2
def call(number):
    os.write(1, b"begun\\n")  # as a whole, whoever else writes
    time.sleep(600)
try:
    list(module.side_by_side(call, range(100), 4))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(3)
"""


def test_an_interrupt_ends_the_process_though_calls_hang() -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(4):
            assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait(60) == 3

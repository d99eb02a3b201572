"""What one server is sent at once and in a minute: by limits, by its own answers, for all models together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

from rag_assay.warehouse.cancellation import CancelledError, cancel_scope
from rag_assay.warehouse.inference import throttle as module
from rag_assay.warehouse.inference.throttle import (
    LeftAloneError,
    Pace,
    RateWindow,
    Throttle,
    Ticket,
    throttle_of,
)


class Line:
    """Passes a throttle in threads of its own; knows who is in flight."""

    def __init__(self) -> None:
        self.throttle = Throttle()
        self.in_flight: list[Ticket] = []
        self.ends = threading.Event()
        self.threads: list[threading.Thread] = []

    def send(self, *tickets: Ticket) -> None:
        for ticket in tickets:
            self.threads.append(threading.Thread(target=self._pass, args=(ticket,), daemon=True))
            self.threads[-1].start()

    def _pass(self, ticket: Ticket) -> None:
        with (
            suppress(CancelledError),
            cancel_scope(self.ends.is_set),
            self.throttle.passed(ticket),
        ):
            self.in_flight.append(ticket)
            self.ends.wait(30)

    def settled(self) -> list[str]:
        """Return the models in flight once nothing changes any more."""
        before = -1
        while before != len(self.in_flight):
            before = len(self.in_flight)
            time.sleep(0.15)
        return [ticket.model for ticket in self.in_flight]


@pytest.fixture
def line() -> Iterator[Line]:
    found = Line()
    yield found
    found.ends.set()
    for thread in found.threads:
        thread.join(30)


def some(model: str, number: int, **pace: int) -> list[Ticket]:
    return [Ticket(model, Pace(**pace)) for _ in range(number)]


def test_unless_said_a_server_is_sent_32_at_once(line: Line) -> None:
    line.send(*some("a", 40))
    assert len(line.settled()) == 32


def test_two_models_of_one_server_share_the_larger_of_their_limits(line: Line) -> None:
    line.send(*some("a", 9, at_once=3))
    assert line.settled() == ["a"] * 3
    line.send(*some("b", 9, at_once=5))
    assert sorted(line.settled()) == ["a"] * 3 + ["b"] * 2


def test_a_model_keeps_its_own_limit_beside_a_freer_one(line: Line) -> None:
    line.send(*some("a", 9, at_once=2), *some("b", 9, at_once=6))
    found = line.settled()
    assert len(found) == 6
    assert found.count("a") <= 2


def test_a_full_model_keeps_no_other_one_waiting(line: Line) -> None:
    line.send(*some("a", 4, at_once=1))
    line.settled()
    line.send(*some("b", 1, at_once=2))
    assert sorted(line.settled()) == ["a", "b"]


def test_who_has_waited_longest_goes_first() -> None:
    throttle, order = Throttle(), []
    tickets = some("a", 8, at_once=1)
    with ThreadPoolExecutor(8) as pool, ExitStack() as first:
        first.enter_context(throttle.passed(Ticket("a", Pace(at_once=1))))

        def go(ticket: Ticket) -> None:
            with throttle.passed(ticket):
                order.append(ticket.number)

        for ticket in reversed(tickets):
            pool.submit(go, ticket)
            time.sleep(0.02)
        first.close()
    assert order == sorted(order)


@contextmanager
def together(throttle: Throttle, tickets: list[Ticket]) -> Iterator[None]:
    with ExitStack() as stack:
        for ticket in tickets:
            stack.enter_context(throttle.passed(ticket))
        yield


def test_a_window_is_gain_times_what_the_one_before_has_answered_and_one_more() -> None:
    throttle = Throttle()
    tickets = some("a", 16, at_once=16)
    with together(throttle, tickets):
        for number, ticket in enumerate(tickets):
            assert throttle.allowed == float("inf"), "decided once a window"
            if number < 12:
                throttle.limited(ticket, None)
            else:
                throttle.answered(ticket, None)
    assert throttle.allowed == module.GAIN * 4 + 1


def test_a_server_that_refuses_one_in_five_is_still_sent_several_at_once() -> None:
    throttle, seen = Throttle(), []
    for number in range(400):
        ticket = Ticket("a", Pace())
        with throttle.passed(ticket):
            if number % 5 == 4:
                throttle.limited(ticket, None)
            else:
                throttle.answered(ticket, None)
        seen.append(throttle.allowed)
    assert min(seen[100:]) > 3, "halved each time it would be one or two"
    for _ in range(80):
        with throttle.passed(ticket):
            throttle.limited(ticket, None)
    assert throttle.allowed < 1.5, "one that refuses all is sent next to nothing"


def test_answers_raise_it_up_to_the_limit_and_it_never_falls_below_one() -> None:
    throttle = Throttle()
    for _ in range(9):
        ticket = Ticket("a", Pace(at_once=4))
        with throttle.passed(ticket):
            throttle.limited(ticket, None)
    assert throttle.allowed == 1
    seen = []
    for _ in range(12):
        ticket = Ticket("a", Pace(at_once=4))
        with throttle.passed(ticket):
            throttle.answered(ticket, None)
        seen.append(throttle.allowed)
    assert seen[:2] == [module.GAIN + 1] * 2, "a window of two"
    assert seen[-1] == float("inf"), "the recipes' limit holds again"


def test_what_the_server_allows_is_what_is_in_flight(line: Line) -> None:
    tickets = some("b", 32)
    with together(line.throttle, tickets):
        for ticket in tickets[:24]:
            line.throttle.limited(ticket, None)
        for ticket in tickets[24:]:
            line.throttle.answered(ticket, None)
    line.send(*some("a", 20))
    assert len(line.settled()) == 12


def test_a_wish_to_be_left_alone_holds_back_every_model_of_the_server(line: Line) -> None:
    ticket = Ticket("a", Pace())
    with line.throttle.passed(ticket):
        line.throttle.limited(ticket, 0.7)
    begin = time.monotonic()
    line.send(*some("a", 2), *some("b", 2))
    assert line.settled() == []
    while not line.in_flight:
        assert time.monotonic() - begin < 30
        time.sleep(0.01)
    assert time.monotonic() - begin >= 0.6
    assert len(line.settled()) == 4


@pytest.mark.parametrize("wish", [61.0, 30000.0, float("inf")])
def test_a_wish_beyond_a_minute_is_a_minute_and_then_one_call(
    monkeypatch: pytest.MonkeyPatch, wish: float
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    throttle = Throttle()
    (refused, *others) = some("a", 9)
    throttle.enter(refused)
    assert throttle.limited(refused, wish) == module.LONGEST_WAIT
    throttle.leave(refused)
    for ticket in others:
        throttle.enter(ticket)
    now[0] = 59.9
    throttle._dispatch()
    assert not any(ticket.is_in_flight for ticket in others)
    now[0] = 60.1
    throttle._dispatch()
    assert [ticket.is_in_flight for ticket in others] == [True] + 7 * [False]
    throttle.answered(others[0], None)
    throttle.leave(others[0])
    assert sum(ticket.is_in_flight for ticket in others[1:]) == 2, "it is healthy: more with each answer"


def test_a_server_that_refuses_all_for_long_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    throttle = Throttle()
    for now[0] in (0.0, 50.0, 100.0, 130.0):
        ticket = Ticket("a", Pace())
        with throttle.passed(ticket):
            throttle.limited(ticket, None)
    with pytest.raises(LeftAloneError), throttle.passed(ticket):
        raise AssertionError
    now[0] += 300.0
    with throttle.passed(ticket):
        throttle.answered(ticket, None)


def test_an_answer_between_refusals_is_patience_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    throttle = Throttle()
    for number in range(20):
        now[0] = 50.0 * number
        ticket = Ticket("a", Pace())
        with throttle.passed(ticket):
            if number % 2:
                throttle.answered(ticket, None)
            else:
                throttle.limited(ticket, None)


def test_who_is_not_wanted_any_more_leaves_the_line(line: Line) -> None:
    line.send(*some("a", 1, at_once=1))
    line.settled()
    with (
        cancel_scope(lambda: True),
        pytest.raises(CancelledError),
        line.throttle.passed(Ticket("a", Pace(at_once=1))),
    ):
        raise AssertionError
    line.ends.set()
    with line.throttle.passed(Ticket("a", Pace(at_once=1))):
        pass


def test_a_window_never_holds_more_than_the_limit_in_any_minute() -> None:
    window, begun, now = RateWindow(), [], 0.0
    for amount in (1, 4, 2, 2, 5, 1, 3, 3, 3, 20, 1, 1) * 3:
        now += window.delay(now, amount, 6)
        window.add(now, amount)
        begun.append((now, amount))
    for at, _ in begun:
        inside = [amount for when, amount in begun if at <= when < at + 60]
        assert sum(inside) <= 6 or len(inside) == 1, "what is larger than the limit goes alone"
    assert now > 300


def test_tokens_that_were_not_used_leave_room() -> None:
    window = RateWindow()
    entry = window.add(0.0, 90)
    assert window.delay(1.0, 20, 100) == 59.0
    assert window.delay(45.0, 20, 100) == 15.0
    window.correct(entry, 10)
    assert window.delay(45.0, 20, 100) == 0.0


def test_requests_and_tokens_a_minute_hold_for_all_threads(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MINUTE", 600.0)
    line.send(*some("a", 9, requests_per_minute=4))
    assert len(line.settled()) == 4
    many = [Ticket("b", Pace(tokens_per_minute=100), tokens=30) for _ in range(9)]
    line.send(*many)
    assert line.settled().count("b") == 3


def test_the_next_go_when_the_minute_is_over(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MINUTE", 1.0)
    begin = time.monotonic()
    line.send(*some("a", 4, requests_per_minute=2))
    while len(line.in_flight) < 4:
        assert time.monotonic() - begin < 30
        time.sleep(0.01)
    assert time.monotonic() - begin >= 0.95


def test_one_server_has_one_throttle() -> None:
    assert throttle_of("http://127.0.0.1:1/v1") is throttle_of("http://127.0.0.1:1/v1")
    assert throttle_of("http://127.0.0.1:1/v1") is not throttle_of("http://127.0.0.1:2/v1")

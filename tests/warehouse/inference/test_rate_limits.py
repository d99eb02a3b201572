"""Rate limits: what a server that refuses is sent, simulated by its clock and counted over loopback."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from itertools import count
from typing import Any, NamedTuple

import pytest

from rag_assay.warehouse.inference import single_call, throttle
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.throttle import PATIENCE, Pace, Throttle, Ticket
from rag_assay.warehouse.iso_dates import retry_after
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, dropped, failure, rate_limited

SERVICE, CALLS = 0.2, 320  # seconds of an answer; calls of a simulation


def ask(gateway: Gateway, server: FakeOpenAI, model: str = "openai/any", **changes: Any) -> Reply:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    return gateway.complete(model, messages, **{"api_base": server.api_base, **changes})


class Outcome(NamedTuple):
    """Of a simulation: seconds, requests, and how many the server had at once."""

    seconds: float
    requests: int
    most: int


Server = Callable[[float, int, int], "str | float"]
"""Of the seconds that have passed, the number of the request and how many are served: what the server does.
"answer", "refuse", "drop", or a number: it refuses with that as `Retry-After`."""


class Simulation:
    """Drives a throttle as `attempted` does, by a clock of its own, without a thread or a sleep.

    The first call is made alone, as the gateway makes it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self.line = Throttle()
        self.served = self.requests = self.most = self.left = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._waiting: list[Ticket] = []
        monkeypatch.setattr(throttle, "monotonic", lambda: self.now)
        monkeypatch.setattr(random, "uniform", self.chance.uniform)

    def run(self, server: Server, calls: int = CALLS, at_once: int = 32) -> Outcome:
        for together in (1, calls - 1):
            self.left += together
            for _ in range(together):
                self._enter(Ticket("any", Pace(at_once=at_once)))
            while self.left:
                self._step(server)
        return Outcome(self.now, self.requests, self.most)

    def _step(self, server: Server) -> None:
        delay = self.line._dispatch()
        for ticket in [one for one in self._waiting if one.is_in_flight]:
            self._waiting.remove(ticket)
            self._send(ticket, server(self.now, self.requests + 1, self.served))
        if delay < float("inf"):
            self._at(delay, lambda: None)
        self.now, _, do = heapq.heappop(self._events)
        do()

    def _at(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._number), do))

    def _enter(self, ticket: Ticket) -> None:
        self._waiting.append(ticket)
        self.line.enter(ticket)

    def _send(self, ticket: Ticket, kind: str | float) -> None:
        self.requests += 1
        if kind == "answer":
            self.served += 1
            self.most = max(self.most, self.served)
            self._at(SERVICE, lambda: self._answered(ticket))
        elif kind == "drop":
            self.line.failed(ticket)
            self.line.leave(ticket)
            self._at(self.line.backoff(ticket, 0, was_dropped=True), lambda: self._enter(ticket))
        else:
            hold = self.line.limited(ticket, None if kind == "refuse" else float(kind))
            self._at(hold, lambda: self._again(ticket))

    def _answered(self, ticket: Ticket) -> None:
        self.served -= 1
        self.left -= 1
        self.line.answered(ticket, None)
        self.line.leave(ticket)

    def _again(self, ticket: Ticket) -> None:
        self.line.leave(ticket)
        self._enter(ticket)


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Simulation:
    return Simulation(monkeypatch)


IDEAL = CALLS / 32 * SERVICE


def test_a_healthy_server_is_sent_all_that_the_recipe_allows(simulation: Simulation) -> None:
    found = simulation.run(lambda *_: "answer")
    assert found.seconds == pytest.approx(IDEAL + SERVICE)
    assert found[1:] == (CALLS, 32)


@pytest.mark.parametrize("seed", range(20))
def test_random_refusals_and_drops_are_no_load(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    simulation = Simulation(monkeypatch, seed)

    def reply(_now: float, _number: int, _served: int) -> str:
        chance = simulation.chance.random()
        return "refuse" if chance < 0.2 else "drop" if chance < 0.25 else "answer"

    found = simulation.run(reply, calls=4 * CALLS)
    assert found.seconds <= 2 * 4 * IDEAL
    assert found.requests <= 1.4 * 4 * CALLS
    assert found.most >= 24


@pytest.mark.parametrize("seed", range(20))
def test_one_in_five_refused_and_one_in_twenty_dropped_cost_little_beyond_the_further_requests(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    def reply(_now: float, number: int, _served: int) -> str:
        return "drop" if number % 20 == 7 else "refuse" if number % 5 == 0 else "answer"

    found = Simulation(monkeypatch, seed).run(reply)
    assert found.seconds <= 1.75 * IDEAL
    assert found.requests <= 1.34 * CALLS


@pytest.mark.parametrize(
    ("seconds", "was_dropped", "longest"), [(0.3, True, 0.2), (30.0, True, 4.0), (0.3, False, 4.0)]
)
def test_a_dropped_call_waits_one_service_time_while_others_are_answered_and_else_ever_longer(
    simulation: Simulation, seconds: float, was_dropped: bool, longest: float
) -> None:
    ticket = Ticket("any", Pace())
    simulation.line.enter(ticket)
    simulation.now += SERVICE
    simulation.line.answered(ticket, None)
    simulation.now += seconds
    waits = [simulation.line.backoff(ticket, 2, was_dropped=was_dropped) for _ in range(100)]
    assert longest / 2 <= min(waits) < max(waits) <= longest


@pytest.mark.parametrize("takes", [1, 2, 8, 20])
def test_a_server_that_takes_few_at_once_is_kept_busy_with_few_requests(
    simulation: Simulation, takes: int
) -> None:
    ideal = CALLS / takes * SERVICE
    found = simulation.run(lambda _now, _number, served: "answer" if served < takes else "refuse")
    assert found.most == takes
    assert found.seconds <= 1.15 * ideal + SERVICE  # the first call is alone
    assert found.requests <= (1.6 if takes > 2 else 2.5) * CALLS


def test_a_server_that_takes_more_later_is_found_out(simulation: Simulation) -> None:
    found = simulation.run(
        lambda now, _number, served: "answer" if served < (4 if now < 4.0 else 32) else "refuse"
    )
    assert found.most == 32
    assert found.seconds <= 4.0 + 2 * (CALLS - 80) / 32 * SERVICE


def test_while_nothing_is_answered_the_waits_double_and_the_window_is_one(simulation: Simulation) -> None:
    found = simulation.run(lambda now, *_: "answer" if now > 60.0 else "refuse")
    assert found.requests <= CALLS + 32 + 12, "32 at first, then one after 1, 2, 4 … seconds"
    assert found.most == 32, "and all of it again"
    assert found.seconds < 2 * 60.0 + 2 * IDEAL


@pytest.mark.parametrize("wish", [2.0, 61.0, 30000.0, float("inf")])
def test_one_wish_to_be_left_alone_costs_a_minute_at_most(simulation: Simulation, wish: float) -> None:
    found = simulation.run(lambda _now, number, _served: wish if number == 40 else "answer")
    assert found.requests == CALLS + 1
    assert found.seconds <= min(wish, 60.0) + 3 * IDEAL


def test_calls_of_a_model_that_refuses_all_leave_the_others_their_slots(simulation: Simulation) -> None:
    line = Throttle()
    bad, good = Ticket("bad", Pace()), Ticket("good", Pace())
    for _ in range(6):
        line.enter(bad)
        held = line.limited(bad, None)
        simulation.now += held
        line.leave(bad)
        for _ in range(20):
            line.enter(good)
            simulation.now += SERVICE
            line.answered(good, None)
            line.leave(good)
    assert held > 30, "its waits have doubled though the server answers"
    assert line.allowed == float("inf")


@pytest.fixture
def chat(server: FakeOpenAI) -> ChatModel:
    return ChatModel(model="openai/any", api_base=server.api_base)


def test_one_in_four_that_fails_costs_a_third_of_requests_more(
    gateway: Gateway, server: FakeOpenAI, chat: ChatModel
) -> None:
    n_dropped: Counter[int] = Counter()

    def respond(received: Received) -> Scripted:
        number, seed = len(server.requests), received.body["seed"]
        if number % 20 == 7 and n_dropped[seed] < 2:  # a call is sent again twice
            n_dropped[seed] += 1
            return dropped()
        return rate_limited() if number % 5 == 0 else Scripted(answer("Paris.").body, delay=0.05)

    server.respond = respond
    replies = list(gateway.map(lambda n: ask(gateway, server, seed=n), range(160), chat))
    assert Counter(reply.status for reply in replies) == {Status.OK: 160}
    assert len(server.requests) <= 1.4 * 160
    assert throttle.throttle_of(server.api_base).allowed > 16, "they are not taken for load"


def test_a_server_that_takes_eight_at_once_gets_hardly_more(
    gateway: Gateway, server: FakeOpenAI, chat: ChatModel
) -> None:
    lock, served, most = threading.Lock(), [0], [0]

    def respond(_received: Received) -> Scripted:
        with lock:
            if served[0] == 8:
                return rate_limited()
            served[0] += 1
            most[0] = max(most[0], served[0])
        time.sleep(0.1)
        with lock:
            served[0] -= 1
        return answer("Paris.")

    server.respond = respond
    replies = list(gateway.map(lambda n: ask(gateway, server, seed=n), range(160), chat))
    assert Counter(reply.status for reply in replies) == {Status.OK: 160}
    assert most == [8]
    assert len(server.requests) <= 1.75 * 160


def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks(gateway: Gateway, server: FakeOpenAI) -> None:
    server.add(rate_limited(0.3), answer("Paris."))
    start = time.perf_counter()
    reply = ask(gateway, server)
    elapsed = time.perf_counter() - start
    assert (reply.status, len(server.requests)) == (Status.OK, 2)
    assert elapsed >= 0.3
    assert reply.seconds <= elapsed - 0.3  # the wait is not the model's time


def test_a_rate_limit_that_stays_is_typed_and_not_cached(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(single_call, "cancellable_sleep", waited.append)
    server.respond = lambda _received: rate_limited(0)
    reply = ask(gateway, server)
    assert (reply.status, reply.retries) == (Status.RATE_LIMITED, len(server.requests) - 1)
    assert reply.retries > gateway.retries, "a rate limit takes up none of them"
    assert sum(waited) <= PATIENCE
    server.respond = lambda _received: answer("Paris.")
    assert ask(gateway, server).text == "Paris."


def test_without_retries_a_rate_limit_is_not_waited_for(gateway: Gateway, server: FakeOpenAI) -> None:
    gateway.retries = 0
    server.add(rate_limited(0), answer("Paris."))
    assert ask(gateway, server).status == Status.RATE_LIMITED
    assert ask(gateway, server).text == "Paris."


@pytest.mark.parametrize("wish", ["30000", "inf", "1e400", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_one_wish_for_too_long_does_not_close_a_healthy_server(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, wish: str
) -> None:
    monkeypatch.setattr(throttle, "LONGEST_WAIT", 0.3)
    server.add(rate_limited(wish), answer("Paris."), answer("Rome."))
    replies = [ask(gateway, server), ask(gateway, server, seed=1)]
    assert [reply.text for reply in replies] == ["Paris.", "Rome."]
    assert len(server.requests) == 3


def test_a_server_that_refuses_all_is_tried_with_one_call_a_minute(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    server.respond = lambda _received: rate_limited()
    assert ask(gateway, server).status == Status.RATE_LIMITED
    n_requests = len(server.requests)
    assert n_requests < 12, "the waits double"
    assert ask(gateway, server, seed=1).status == Status.RATE_LIMITED
    n_requests = len(server.requests)
    other = ask(gateway, server, seed=9)
    assert (other.status, len(server.requests)) == (Status.RATE_LIMITED, n_requests), "it is left alone now"
    assert "the server limits the rate of requests; waiting for" in str(other.reason)
    clock.now += 61.0
    assert ask(gateway, server, seed=2).status == Status.RATE_LIMITED
    assert len(server.requests) == n_requests + 1
    server.respond = lambda _received: answer("Paris.")
    clock.now += 61.0
    assert ask(gateway, server, seed=3).text == "Paris."


class Clock:
    """The throttle's clock, which only waits move on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.waited: list[float] = []
        monkeypatch.setattr(throttle, "monotonic", lambda: self.now)
        monkeypatch.setattr(single_call, "cancellable_sleep", self.wait)

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds


def test_without_a_wish_the_waits_are_by_chance_and_their_bound_doubles(
    gateway: Gateway, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(random, "uniform", lambda least, most: 1.0 if least == 0.75 else most)
    server.add(*[rate_limited()] * 3, answer("Paris."), *[failure(500, "overloaded")] * 2, answer("Rome."))
    assert ask(gateway, server).text == "Paris."
    assert ask(gateway, server, seed=1).text == "Rome."
    assert clock.waited == [0.25, 0.5, 1.0, 1.0, 2.0]


def test_retry_after_may_be_a_date() -> None:
    wait = retry_after(formatdate(time.time() + 30, usegmt=True))
    assert wait is not None
    assert 25 < wait <= 30
    local = retry_after(formatdate(time.time() + 30))  # "-0000": a date without a zone
    assert local is not None
    assert 25 < local <= 30
    assert retry_after(None) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 0.25 ", 0.25),
        ("0", 0.0),
        ("-5", 0.0),
        ("30000", 30000.0),
        ("inf", float("inf")),
        ("-inf", 0.0),
        ("nan", None),
        ("", None),
        ("soon", None),
        ("1, 2", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_what_retry_after_may_hold(value: str, seconds: float | None) -> None:
    assert retry_after(value) == seconds

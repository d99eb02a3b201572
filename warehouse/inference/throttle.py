"""How many calls are in flight to a server and to each of its models, and how fast new ones begin.

One `Throttle` a server follows its goodput: the next window of calls is GAIN times what the last one
answered, and one more. A refused call keeps its slot for about one service time.
"""

from __future__ import annotations

import random
import threading
from bisect import insort
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import inf
from time import monotonic
from typing import NamedTuple

from rag_assay.warehouse.cancellation import LOOK, CancelledError, is_cancelled

AT_ONCE = 32  # calls in flight to one model, and to one server; default of a recipe's `limits`
# Seconds: a server that asks for more, or refuses for longer, is tried with one call then
LONGEST_WAIT = 60.0
PATIENCE = 120.0  # seconds that a server may answer nothing but that its limit is reached
MINUTE = 60.0  # seconds
GAIN = 1.4  # of a window over what the one before has answered: above 1 / (1 - 0.2), with room for chance
FIRST_HOLD = 0.25  # seconds that a refused call waits while nothing else tells how long
LATEST = 1 / 8  # weight of the last answer in the service time


class LeftAloneError(Exception):
    """A server has refused all calls for so long that no further one waits for it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the server limits the rate of requests; waiting for {seconds:.0f} s")


class Pace(NamedTuple):
    """What a recipe allows its model's server to be sent; None: any number."""

    at_once: int = AT_ONCE
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class RateWindow:
    """Amounts of the last minute.

    >>> window = RateWindow()
    >>> window.delay(now=0.0, amount=8, limit=10)
    0.0
    >>> _ = window.add(now=0.0, amount=8)
    >>> window.delay(now=15.0, amount=3, limit=10)
    45.0
    """

    def __init__(self) -> None:
        self._entries: deque[list[float]] = deque()
        self._total = 0.0

    def delay(self, now: float, amount: float, limit: float | None) -> float:
        if limit is None:
            return 0.0
        self._forget(now)
        excess = self._total + amount - limit
        delay = 0.0
        for begun, one in self._entries:
            if excess <= 0:
                break
            excess -= one
            delay = begun + MINUTE - now
        return delay

    def add(self, now: float, amount: float) -> list[float]:
        self._forget(now)
        entry = [now, amount]
        self._entries.append(entry)
        self._total += amount
        return entry

    def _forget(self, now: float) -> None:
        while self._entries and self._entries[0][0] <= now - MINUTE:
            self._total -= self._entries.popleft()[1]

    def correct(self, entry: list[float], amount: float) -> None:
        if self._entries and entry[0] >= self._entries[0][0]:
            self._total += amount - entry[1]
            entry[1] = amount


class _Flow:
    def __init__(self) -> None:
        self.in_flight = 0
        self.requests, self.tokens = RateWindow(), RateWindow()
        self.limits = Pace()  # the loosest of those inside
        self._inside: Counter[Pace] = Counter()
        self._service: float | None = None  # seconds of an answer, the last ones counting most
        self._answered_at = -inf
        self._refused_since: float | None = None  # the first refusal since the last answer

    def enter(self, pace: Pace) -> None:
        self._inside[pace] += 1
        if self._inside[pace] == 1:
            self._set_limits()

    def leave(self, pace: Pace) -> None:
        self._inside[pace] -= 1
        if not self._inside[pace]:
            del self._inside[pace]
            self._set_limits()

    def _set_limits(self) -> None:
        if self._inside:
            many, requests, tokens = zip(*self._inside, strict=True)
            self.limits = Pace(max(many), _loosest(requests), _loosest(tokens))

    def delay(self, now: float, tokens: float) -> float:
        _, requests, many = self.limits
        if requests is None and many is None:
            return 0.0
        return max(self.requests.delay(now, 1, requests), self.tokens.delay(now, tokens, many))

    def answered(self, now: float, seconds: float) -> None:
        self._refused_since = None
        self._answered_at = now
        before = seconds if self._service is None else self._service
        self._service = before + LATEST * (seconds - before)

    def hold(self, now: float) -> float:
        """Return how long a refused call keeps its slot: about one service time, then doubling."""
        if self._refused_since is None:
            self._refused_since = now
        base = FIRST_HOLD if self._service is None else self._service
        if self.in_flight <= 1:
            base = min(base, FIRST_HOLD)
        spread = random.uniform(0.75, 1.25)  # noqa: S311 -- no secret
        return min((base + now - self._refused_since) * spread, LONGEST_WAIT)

    def backoff(self, now: float, faults: int, *, was_dropped: bool) -> float:
        longest = min(2.0**faults, LONGEST_WAIT)
        if was_dropped and self._service is not None and now - self._answered_at <= 2 * self._service:
            longest = min(longest, self._service)
        return random.uniform(longest / 2, longest)  # noqa: S311 -- no secret


def _loosest(limits: Sequence[int | None]) -> int | None:
    stated = [limit for limit in limits if limit is not None]
    return max(stated) if len(stated) == len(limits) else None


@dataclass(eq=False, slots=True)
class Ticket:
    """A call's place in the line. ``tokens``: expected; ``go``: set once it is in flight."""

    model: str
    pace: Pace
    tokens: int = 0
    number: int = field(default_factory=count().__next__)
    is_in_flight: bool = False
    begun_at: float = 0.0
    go: threading.Event | None = field(default=None, repr=False)
    entries: tuple[list[float], ...] = field(default=(), repr=False)


class Throttle:
    """The line before one server. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server = _Flow()
        self._models: dict[str, _Flow] = {}
        self._waiting: dict[str, list[Ticket]] = {}
        self.allowed = inf  # calls that the server is sent at once, as its answers have it
        self._n_answered = self._n_refused = 0  # in this window
        self._held_until = self._closed_until = -inf
        self._next_at = inf  # when waiting calls may go on, if only time is in the way
        self._limited: tuple[float, float] | None = None  # first and last refusal since it last answered

    @contextmanager
    def passed(self, ticket: Ticket) -> Iterator[None]:
        """Wait until an attempt may begin; it is in flight in the block. Raises LeftAloneError."""
        delay = self.enter(ticket)
        try:
            if not ticket.is_in_flight:
                self._wait(ticket, delay)
            yield
        finally:
            self.leave(ticket)

    def _wait(self, ticket: Ticket, delay: float) -> None:
        assert ticket.go is not None  # noqa: S101 -- it is not in flight
        while not ticket.go.wait(min(delay, LOOK)):
            with self._lock:
                now = monotonic()
                if self._next_at <= now:
                    self._dispatch()
                delay = self._next_at - now
                closed = self._closed_until - now
            if ticket.is_in_flight:
                break
            if closed > 0:
                raise LeftAloneError(closed)
            if is_cancelled():
                raise CancelledError

    def enter(self, ticket: Ticket) -> float:
        """Take a place in the line; return the seconds until the attempt, if only time is in the way."""
        with self._lock:
            closed = self._closed_until - monotonic()
            if closed > 0:
                raise LeftAloneError(closed)
            ticket.is_in_flight, ticket.go = False, None
            model = self._models.get(ticket.model)
            if model is None:
                model = self._models[ticket.model] = _Flow()
                self._waiting[ticket.model] = []
            for flow in (self._server, model):
                flow.enter(ticket.pace)
            insort(self._waiting[ticket.model], ticket, key=lambda one: one.number)
            delay = self._dispatch()
            if not ticket.is_in_flight:
                ticket.go = threading.Event()
            return delay

    def leave(self, ticket: Ticket) -> None:
        with self._lock:
            model = self._models[ticket.model]
            if ticket.is_in_flight:
                model.in_flight -= 1
                self._server.in_flight -= 1
            else:
                self._waiting[ticket.model].remove(ticket)
            for flow in (self._server, model):
                flow.leave(ticket.pace)
            self._dispatch()

    def _dispatch(self) -> float:
        """Start the calls that may begin; return the seconds until the next, if only time is in the way."""
        now = monotonic()
        delay = self._held_until - now if self._held_until > now else self._let_go(now)
        self._next_at = now + delay
        return delay

    def _let_go(self, now: float) -> float:
        soonest = inf
        # The longest waiting first, whichever model it asks for.
        lines = [line for line in self._waiting.values() if line]
        for line in sorted(lines, key=lambda one: one[0].number) if len(lines) > 1 else lines:
            model = self._models[line[0].model]
            while line:
                most = max(1.0, min(self.allowed, self._server.limits.at_once))
                if self._server.in_flight + 1 > most or model.in_flight + 1 > model.limits.at_once:
                    break
                tokens = line[0].tokens
                delay = max(self._server.delay(now, tokens), model.delay(now, tokens))
                if delay > 0:
                    soonest = min(soonest, delay)
                    break
                self._begin(line.pop(0), model, now)
        return soonest

    def _begin(self, ticket: Ticket, model: _Flow, now: float) -> None:
        ticket.begun_at = now
        for flow in (self._server, model):
            flow.in_flight += 1
            flow.requests.add(now, 1)
        ticket.entries = self._server.tokens.add(now, ticket.tokens), model.tokens.add(now, ticket.tokens)
        ticket.is_in_flight = True
        if ticket.go is not None:
            ticket.go.set()

    def answered(self, ticket: Ticket, tokens: int | None) -> None:
        with self._lock:
            now = monotonic()
            self._limited = None
            self._models[ticket.model].answered(now, now - ticket.begun_at)
            self._n_answered += 1
            self._end_window()
            if tokens is not None:
                self._correct(ticket, tokens)

    def failed(self, ticket: Ticket) -> None:
        with self._lock:
            self._correct(ticket, 0)

    def backoff(self, ticket: Ticket, faults: int, *, was_dropped: bool) -> float:
        """Return the seconds until a call is sent again after a fault: random, doubling with ``faults``."""
        with self._lock:
            return self._models[ticket.model].backoff(monotonic(), faults, was_dropped=was_dropped)

    def limited(self, ticket: Ticket, wait: float | None) -> float:
        """Return the seconds that the refused attempt keeps its slot; infinity: give up."""
        with self._lock:
            now = monotonic()
            hold = self._models[ticket.model].hold(now)
            self._n_refused += 1
            self._end_window()
            if wait:
                if wait > LONGEST_WAIT:
                    self._probe()
                hold = min(wait, LONGEST_WAIT)
                self._held_until = max(self._held_until, now + hold)
            if self._limited is None or now - self._limited[1] > PATIENCE:
                self._limited = (now, now)
            self._limited = (self._limited[0], now)
            if now - self._limited[0] >= PATIENCE:
                self._probe()
                self._closed_until = now + LONGEST_WAIT
                return inf
            return hold

    def _end_window(self) -> None:
        window = max(1.0, min(self.allowed, self._server.limits.at_once))
        ended = self._n_answered + self._n_refused
        if ended < int(window):
            return
        allowed = GAIN * window * self._n_answered / ended + 1
        self.allowed = allowed if allowed < self._server.limits.at_once else inf
        self._n_answered = self._n_refused = 0

    def _probe(self) -> None:
        self.allowed = 1.0
        self._n_answered = self._n_refused = 0

    def _correct(self, ticket: Ticket, tokens: int) -> None:
        for flow, entry in zip((self._server, self._models[ticket.model]), ticket.entries, strict=False):
            flow.tokens.correct(entry, tokens)
        ticket.entries = ()


_throttles: dict[str, Throttle] = {}
_throttles_lock = threading.Lock()


def throttle_of(server: str) -> Throttle:
    with _throttles_lock:
        if server not in _throttles:
            _throttles[server] = Throttle()
        return _throttles[server]

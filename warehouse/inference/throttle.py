"""How many calls are in flight to a server and to each of its models, and how fast new ones begin.

What all threads of the process send to one server passes one `Throttle`. It begins with as many calls as the
recipes allow; a server that says "too many requests" is sent fewer, and one more each time that as many as
are allowed were answered (additive increase, multiplicative decrease: Chiu and Jain, 1989). How much fewer is
told by the share of refusals among the last answers: half as many where it refuses all, hardly fewer where it
refuses one now and then (as DCTCP does by marked packets: Alizadeh et al., SIGCOMM 2010).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import inf
from time import monotonic

from warehouse.waiting import LOOK, UnwantedError, is_unwanted

AT_ONCE = 32  # calls in flight to one model, and to one server, unless a recipe says another number
LONGEST_WAIT = 60.0  # seconds: a server that asks for more is left alone for now
PATIENCE = 120.0  # seconds that a server may answer nothing but that its limit is reached
MINUTE = 60.0  # seconds
LATEST = 1 / 16  # weight of the last answer in the share of refusals


class LeftAloneError(Exception):
    """A server has asked to be left alone for longer than a call waits."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the server limits the rate of requests; it is left alone for {seconds:.0f} s more")


@dataclass(frozen=True)
class Pace:
    """What a recipe allows its model's server to be sent; None: any number.

    at_once: calls in flight
    """

    at_once: int = AT_ONCE
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Window:
    """Amounts of the last minute.

    >>> window = Window()
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
        """Return the seconds until ``amount`` more keep to the limit; 0 where nothing else is there."""
        while self._entries and self._entries[0][0] <= now - MINUTE:
            self._total -= self._entries.popleft()[1]
        if limit is None:
            return 0.0
        excess = self._total + amount - limit
        delay = 0.0
        for begun, one in self._entries:
            if excess <= 0:
                break
            excess -= one
            delay = begun + MINUTE - now
        return delay

    def add(self, now: float, amount: float) -> list[float]:
        """Count an amount; return its entry, for `correct`."""
        entry = [now, amount]
        self._entries.append(entry)
        self._total += amount
        return entry

    def correct(self, entry: list[float], amount: float) -> None:
        """Let an entry, which may have passed the window meanwhile, count another amount."""
        if self._entries and entry[0] >= self._entries[0][0]:
            self._total += amount - entry[1]
            entry[1] = amount


class _Flow:
    """The calls to one server, or to one model: those that wait or are in flight, and those of a minute."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.inside: Counter[Pace] = Counter()
        self.requests, self.tokens = Window(), Window()

    @property
    def at_once(self) -> int:
        """The largest number that a recipe whose calls wait or are in flight allows."""
        return max((pace.at_once for pace in self.inside), default=AT_ONCE)

    def delay(self, now: float, tokens: float) -> float:
        """Return the seconds until a call with so many tokens keeps to the loosest rates of the recipes."""
        requests = [pace.requests_per_minute for pace in self.inside]
        many = [pace.tokens_per_minute for pace in self.inside]
        return max(
            self.requests.delay(now, 1, _loosest(requests)), self.tokens.delay(now, tokens, _loosest(many))
        )


def _loosest(limits: list[int | None]) -> int | None:
    stated = [limit for limit in limits if limit is not None]
    return max(stated) if stated and len(stated) == len(limits) else None


@dataclass(eq=False)
class Ticket:
    """A call's place in the line: who has waited longest goes first, also for its next attempt.

    model: whose line it is
    tokens: that it is expected to take
    begun_at: of the attempt that is in flight, by the throttle's clock
    """

    model: str
    pace: Pace
    tokens: int = 0
    number: int = field(default_factory=count().__next__)
    begun_at: float = 0.0
    go: threading.Event = field(default_factory=threading.Event, repr=False)
    entries: tuple[list[float], ...] = field(default=(), repr=False)


class Throttle:
    """The line before one server. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server = _Flow()
        self._models: dict[str, _Flow] = {}
        self._waiting: dict[str, list[Ticket]] = {}
        self._allowed = inf  # in flight, as the server's answers have it
        self._refused = 1.0  # share of refusals among the last answers; the first one of all halves
        self._slowed_at = -inf
        self._held_until = -inf
        self._limited: tuple[float, float] | None = None  # first and last refusal since it last answered

    @property
    def allowed(self) -> float:
        """How many calls the server is sent at once, as far as its answers have it; infinity: any number."""
        return self._allowed

    @contextmanager
    def passed(self, ticket: Ticket) -> Iterator[None]:
        """Wait until an attempt may begin; it is in flight while the block lasts.

        Raises:
            LeftAloneError: the server has asked to be left alone for longer than LONGEST_WAIT.
            UnwantedError: nobody wants the call any more.
        """
        self._wait(ticket)
        try:
            yield
        finally:
            with self._lock:
                self._models[ticket.model].in_flight -= 1
                self._server.in_flight -= 1
                self._dismiss(ticket)
                self._dispatch()

    def _wait(self, ticket: Ticket) -> None:
        with self._lock:
            ticket.go.clear()
            for flow in (self._server, self._models.setdefault(ticket.model, _Flow())):
                flow.inside[ticket.pace] += 1
            line = self._waiting.setdefault(ticket.model, [])
            line.append(ticket)
            line.sort(key=lambda one: one.number)
        while True:
            with self._lock:
                delay = self._dispatch()
                if ticket.go.is_set():
                    return
                left_alone = self._held_until - monotonic()
                is_over = left_alone > LONGEST_WAIT or is_unwanted()
                if is_over:
                    line.remove(ticket)
                    self._dismiss(ticket)
                    self._dispatch()
            if is_over:
                raise LeftAloneError(left_alone) if left_alone > LONGEST_WAIT else UnwantedError
            if ticket.go.wait(min(delay, LOOK)):
                return

    def _dismiss(self, ticket: Ticket) -> None:
        for flow in (self._server, self._models[ticket.model]):
            flow.inside[ticket.pace] -= 1
            if not flow.inside[ticket.pace]:
                del flow.inside[ticket.pace]

    def _dispatch(self) -> float:
        """Let go whoever may; return the seconds after which the next may, if only time is in the way."""
        now = monotonic()
        if self._held_until > now:
            return self._held_until - now
        soonest = inf
        # The longest waiting first, whichever model it asks for.
        for line in sorted((line for line in self._waiting.values() if line), key=lambda one: one[0].number):
            while line:
                ticket, model = line[0], self._models[line[0].model]
                most = max(1.0, min(self._allowed, self._server.at_once))
                if self._server.in_flight + 1 > most or model.in_flight + 1 > model.at_once:
                    break
                delay = max(flow.delay(now, ticket.tokens) for flow in (self._server, model))
                if delay > 0:
                    soonest = min(soonest, delay)
                    break
                line.pop(0)
                self._begin(ticket, model, now)
        return soonest

    def _begin(self, ticket: Ticket, model: _Flow, now: float) -> None:
        ticket.begun_at = now
        for flow in (self._server, model):
            flow.in_flight += 1
            flow.requests.add(now, 1)
        ticket.entries = tuple(flow.tokens.add(now, ticket.tokens) for flow in (self._server, model))
        ticket.go.set()

    def answered(self, ticket: Ticket, tokens: int | None) -> None:
        """Hear that an attempt was answered; more may be in flight now.

        tokens: that it took; None: not known
        """
        with self._lock:
            self._limited = None
            self._refused -= LATEST * self._refused
            if self._allowed < inf:
                self._allowed += 1 / self._allowed
                if self._allowed >= self._server.at_once:
                    self._allowed = inf
            if tokens is not None:
                self._correct(ticket, tokens)

    def failed(self, ticket: Ticket) -> None:
        """Hear that an attempt took no tokens."""
        with self._lock:
            self._correct(ticket, 0)

    def limited(self, ticket: Ticket, wait: float | None) -> None:
        """Hear that the server takes no more for now: fewer may be in flight.

        It is slowed down once for all that were in flight together.

        wait: seconds that it asks to be left alone; None: it does not say
        """
        with self._lock:
            now = monotonic()
            self._correct(ticket, 0)
            self._refused += LATEST * (1 - self._refused)
            if ticket.begun_at >= self._slowed_at:
                self._slowed_at = now
                most = min(self._allowed, self._server.at_once)
                self._allowed = max(1.0, most * (1 - self._refused / 2))
            if self._limited is None or now - self._limited[1] > PATIENCE:
                self._limited = (now, now)
            self._limited = (self._limited[0], now)
            if now - self._limited[0] > PATIENCE:  # it has answered nothing else for so long
                wait = max(wait or 0.0, 2 * LONGEST_WAIT)
            self._held_until = max(self._held_until, now + (wait or 0.0))

    def _correct(self, ticket: Ticket, tokens: int) -> None:
        for flow, entry in zip((self._server, self._models[ticket.model]), ticket.entries, strict=False):
            flow.tokens.correct(entry, tokens)
        ticket.entries = ()


_throttles: dict[str, Throttle] = {}
_throttles_lock = threading.Lock()


def throttle_of(server: str) -> Throttle:
    """Return the one throttle of a server, by its address or its provider's name."""
    with _throttles_lock:
        return _throttles.setdefault(server, Throttle())

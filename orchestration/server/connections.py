"""Limits of a server's connections: how many, of one address and in all, and how long a request may take."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0  # seconds that the head of a request may take to come
BODY = 30.0  # and its body
UNREAD = 30.0  # seconds that a client may leave what it is sent unread
SPARE = 128  # connections beside those of requests that are answered or wait


@dataclass
class Connections:
    """The open connections of a server.

    per_address: of one client; more than its requests can need, so that there is always room for another head
    in_all: of all clients
    """

    per_address: int
    in_all: int
    _open: dict[BoundedConnection, str] = field(default_factory=dict)  # the oldest first
    _of: Counter[str] = field(default_factory=Counter)

    def add(self, one: BoundedConnection, address: str) -> None:
        """Take a connection; of too many, the oldest whose request has not come whole is closed."""
        self._open[one] = address
        self._of[address] += 1
        if self._of[address] > self.per_address:
            self._close_oldest(address)
        elif len(self._open) > self.in_all:
            self._close_oldest(None)

    def remove(self, one: BoundedConnection) -> None:
        address = self._open.pop(one, None)
        if address is not None:
            self._of[address] -= 1
            if not self._of[address]:
                del self._of[address]

    def _close_oldest(self, address: str | None) -> None:
        mine = [one for one, its in self._open.items() if address in {None, its}]
        # The new one is the last, and is receiving: so there always is one.
        oldest = next(one for one in mine if one.is_receiving)
        self.remove(oldest)
        oldest.abort()


class BoundedConnection(H11Protocol):
    """uvicorn's HTTP connection, closed when a request or the reading of its answer takes too long."""

    limits: Connections  # of the subclass that `connection_class` makes

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def is_receiving(self) -> bool:
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start("head", HEAD)
        self.limits.add(self, self.client[0] if self.client else "")

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.remove(self)
        for name in list(self._timers):
            self._stop(name)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start("head", HEAD)
        else:
            self._stop("head")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("unread", UNREAD)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("unread")

    def abort(self) -> None:
        self.transport.abort()

    def _start(self, name: str, seconds: float) -> None:
        if name not in self._timers:  # bytes that trickle in give it no further time
            self._timers[name] = self.loop.call_later(seconds, self.abort)

    def _stop(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()


def connection_class(limits: Connections) -> type[BoundedConnection]:
    return type("BoundedConnection", (BoundedConnection,), {"limits": limits})

"""Clients of HTTPX with one connection each: for streams, and for what goes through a proxy."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import httpx

from rag_assay.warehouse.inference import http_limits
from rag_assay.warehouse.inference.egress import guard_client


class ClientConnection:
    """A client with one connection, which can be cut from another thread while it waits for bytes."""

    def __init__(self) -> None:
        client = httpx.Client(
            verify=_tls(),
            follow_redirects=True,
            # Streams uncompressed: what compresses holds pieces back until there are more of them.
            headers={"Accept-Encoding": "identity"},
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        )
        self.client = guard_client(http_limits.limit(client))
        self.is_cut = False
        self._stream: Any = None
        self._lent_to: object = None
        self._lock = threading.Lock()

    def trace(self, name: str, about: Mapping[str, Any]) -> None:
        if name in {"connection.connect_tcp.complete", "connection.start_tls.complete"}:
            with self._lock:
                self._stream = about["return_value"]
                if self.is_cut:
                    self._cut()

    def lend(self) -> Callable[[], None]:
        call = self._lent_to = object()

        def hang_up() -> None:
            with self._lock:
                if self._lent_to is call:  # else it is that of another call now
                    self._cut()

        return hang_up

    def give_back(self) -> None:
        with self._lock:
            self._lent_to = None

    def _cut(self) -> None:
        self.is_cut = True
        found = self._stream and self._stream.get_extra_info("socket")
        if found is not None:
            with suppress(OSError):  # it is closed already
                socket.socket.shutdown(found, socket.SHUT_RDWR)  # that of TLS forgets its state meanwhile


@cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


_idle: list[ClientConnection] = []
_idle_lock = threading.Lock()


@contextmanager
def lent_line() -> Iterator[ClientConnection]:
    """Lend a line to one call at a time, the last one that was given back first: its connection is open."""
    with _idle_lock:
        line = _idle.pop() if _idle else None
    line = line or ClientConnection()
    try:
        yield line
    finally:
        line.give_back()
        if line.is_cut:
            line.client.close()
        else:
            with _idle_lock:
                _idle.append(line)

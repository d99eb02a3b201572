"""Runs the server until a signal comes, and lets the requests under way end."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf

import uvicorn
from starlette.types import ASGIApp

from rag_assay.orchestration.loopback import bound_socket, url_of
from rag_assay.orchestration.question_service.opened_cell import OpenedCell
from rag_assay.orchestration.question_service.worker_pool import ServiceLimits, Workers
from rag_assay.orchestration.server.app import application
from rag_assay.orchestration.server.connections import SPARE, Connections, connection_class
from rag_assay.orchestration.server.guard import AccessRules, Log
from rag_assay.orchestration.shutdown import grace
from rag_assay.warehouse.errors import AssayError, InputError

_GRACE = 30  # seconds that a server in a thread may take to end
_IDLE = 30  # seconds that a connection may stay without a request
_BACKLOG = 1024  # connections that wait to be taken: a burst must not block the next client
_FILES = 256  # that are open beside connections
_START = 60.0  # seconds until a server that does not begin is given up


@dataclass(frozen=True)
class ListenAddress:
    """Where a server listens: the socket is bound before anything is loaded."""

    socket: socket.socket
    host: str

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        return url_of(self.host, self.port)

    def listen(self) -> None:
        self.socket.listen(_BACKLOG)


def bind_port(host: str, port: int) -> ListenAddress:
    try:
        return ListenAddress(bound_socket(host, port), host)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"port {port} of {host} cannot be used ({reason}); choose another with --port, or --host"
        ) from error


def server_of(
    opened: OpenedCell, limits: ServiceLimits, rules: AccessRules, log: Log
) -> tuple[uvicorn.Server, Workers]:
    workers = Workers(limits)
    app: ASGIApp = application(workers, opened, rules, log)
    per_address = limits.at_once + limits.queued + SPARE
    connections = Connections(per_address, 2 * per_address)
    _allow_files(connections.in_all + _FILES)
    config = uvicorn.Config(
        app,
        http=connection_class(connections),
        access_log=False,
        log_level="warning",
        lifespan="on",
        ws="none",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=int(limits.timeout) + 5,
        backlog=_BACKLOG,
        limit_concurrency=None,
    )
    return uvicorn.Server(config), workers


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def serve(
    opened: OpenedCell, place: ListenAddress, limits: ServiceLimits, rules: AccessRules, log: Log
) -> None:
    """Serve until SIGTERM or Ctrl-C; requests under way end first, and at once after a second Ctrl-C."""
    server, workers = server_of(opened, limits, rules, log)
    # uvicorn handles signals itself, within its `timeout_graceful_shutdown`, and raises the first one again.
    with grace(inf), suppress(KeyboardInterrupt):
        try:
            server.run(sockets=[place.socket])
        finally:
            workers.close()


@contextmanager
def serve_in_thread(
    opened: OpenedCell, place: ListenAddress, limits: ServiceLimits, rules: AccessRules, log: Log
) -> Iterator[Workers]:
    server, workers = server_of(opened, limits, rules, log)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place.socket]}, daemon=True)
    thread.start()
    until = time.monotonic() + _START
    while not server.started:
        if not thread.is_alive() or time.monotonic() > until:
            raise AssayError("the server did not begin; see its output above")
        time.sleep(0.01)
    try:
        yield workers
    finally:
        server.should_exit = True
        thread.join(_GRACE)
        workers.close()

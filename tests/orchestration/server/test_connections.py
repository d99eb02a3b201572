"""Half-sent requests do not keep a server from others: they are bounded in number and in time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from rag_assay.orchestration.server import connections as module
from rag_assay.orchestration.server.connections import Connections, connection_class
from rag_assay.orchestration.server.guard import AccessRules, Guard

HALF = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BODY = b"POST /retrieve HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nfive!"
Connect = Callable[[bytes], socket.socket]


class Answering:
    """An application that answers `/hold` once it is told to, all else at once."""

    def __init__(self) -> None:
        self.holds, self.ends = threading.Event(), threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/hold":
            import asyncio

            self.holds.set()
            await asyncio.to_thread(self.ends.wait, 60)
        await PlainTextResponse("ok")(scope, receive, send)


@contextmanager
def running(limits: Connections, app: Answering) -> Iterator[int]:
    """Serve on a free port."""
    guard = Guard(app, AccessRules(None, "127.0.0.1"), lambda _line: None)
    config = uvicorn.Config(
        guard, http=connection_class(limits), ws="none", lifespan="off", log_level="error"
    )
    server = uvicorn.Server(config)
    with closing(socket.create_server(("127.0.0.1", 0), backlog=1024)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            app.ends.set()
            server.should_exit = True
            thread.join(60)


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[Connect, Answering]]]:
    """(per address, in all) -> what connects and sends some bytes."""
    with ExitStack() as stack:

        def start(per_address: int, in_all: int) -> tuple[Connect, Answering]:
            app = Answering()
            port = stack.enter_context(running(Connections(per_address, in_all), app))

            def connect(data: bytes) -> socket.socket:
                one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
                one.sendall(data)
                return one

            return connect, app

        yield start


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()


def status(one: socket.socket) -> bytes:
    """Status of the answer; nothing where the connection was closed."""
    try:
        return one.recv(65536)[9:12]
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("data", [b"", HALF, BODY])
@pytest.mark.parametrize(("per_address", "in_all"), [(8, 100), (100, 8)])
def test_the_oldest_half_sent_requests_make_room(
    serve: Callable[..., tuple[Connect, Answering]], per_address: int, in_all: int, data: bytes
) -> None:
    connect, _ = serve(per_address, in_all)
    half = []
    for _ in range(40):
        half.append(connect(data))
        if len(half) % 5 == 0:
            assert status(connect(request("/health"))) == b"200"
    assert [status(one) for one in half[:20]] == [b""] * 20
    half[-1].settimeout(0.05)
    with pytest.raises(TimeoutError):
        status(half[-1])


def test_a_request_that_is_being_answered_is_not_closed(
    serve: Callable[..., tuple[Connect, Answering]],
) -> None:
    connect, app = serve(4, 4)
    held = connect(request("/hold"))
    assert app.holds.wait(60)
    half = [connect(HALF) for _ in range(20)]
    assert status(half[0]) == b""
    app.ends.set()
    assert status(held) == b"200"


def test_a_head_and_a_body_have_their_time(
    serve: Callable[..., tuple[Connect, Answering]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEAD", 0.3)
    monkeypatch.setattr(module, "BODY", 0.3)
    connect, app = serve(100, 100)
    held = connect(request("/hold"))
    assert app.holds.wait(60)
    again = connect(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert status(again) == b"200"
    again.sendall(HALF)  # half a second request on a connection that was kept
    for one, expected in ((connect(b""), b""), (connect(HALF), b""), (again, b""), (connect(BODY), b"408")):
        assert status(one) == expected
    app.ends.set()
    assert status(held) == b"200", "an answer has all the time that it needs"

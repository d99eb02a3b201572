"""One deadline from connecting to the last byte, for every client, against servers that are slow."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import httpx
import pytest

from rag_assay.orchestration.alerts import delivery as channels
from rag_assay.orchestration.alerts.journal import AlertEvent
from rag_assay.warehouse.inference import chat_completions, http_limits
from rag_assay.warehouse.inference.embedding_api import EmbeddingApi, EmbeddingError
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.http_limits import limit
from rag_assay.warehouse.inference.streaming import on_token
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import answer, words

SILENCE, DRIP = 2.0, 0.1  # seconds that a server may stay silent; between two bytes
SECONDS = 0.5  # of a request, in all
MANY = 600  # bytes that are dripped: a minute, unless the client hangs up

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Slow: "
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class Slow:
    """A server on loopback that reads a request and then does as ``serve`` does; counts what it sent.

    reads: whether it reads the request
    """

    def __init__(self, serve: Callable[[Slow, socket.socket], None], *, reads: bool = True) -> None:
        self.n_connections = self.n_sent = 0
        self.stopping = threading.Event()
        self._serve, self._reads = serve, reads
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.n_connections += 1
                threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if self._reads:
                read = b""
                while b"\r\n\r\n" not in read or not read.rstrip().endswith(b"}"):
                    read += connection.recv(1 << 16)
            self._serve(self, connection)

    def drip(self, connection: socket.socket, *pieces: bytes) -> None:
        """Send a piece every DRIP seconds."""
        for piece in pieces:
            connection.sendall(piece)
            self.n_sent += 1
            if self.stopping.wait(DRIP):
                return

    def close(self) -> None:
        self.stopping.set()
        self._listener.close()


def drips_headers(server: Slow, connection: socket.socket) -> None:
    connection.sendall(HEAD)
    server.drip(connection, *[b"x"] * MANY)


def drips_first_line(server: Slow, connection: socket.socket) -> None:
    server.drip(connection, *[b"H"] * MANY)


def drips_body(server: Slow, connection: socket.socket) -> None:
    connection.sendall(HEAD + b"1\r\nContent-Length: 9000\r\n\r\n")
    server.drip(connection, *[b" "] * MANY)


def drips_tokens(server: Slow, connection: socket.socket) -> None:
    connection.sendall(EVENTS)
    server.drip(connection, *words("a") * MANY)


def drips_informational_responses(server: Slow, connection: socket.socket) -> None:
    server.drip(connection, *[b"HTTP/1.1 102 Processing\r\n\r\n"] * MANY)


def redirects_in_a_circle(server: Slow, connection: socket.socket) -> None:
    server.stopping.wait(DRIP)
    head = f"HTTP/1.1 307 X\r\nLocation: http://{server.address}/v1/chat/completions\r\nConnection: close\r\n"
    connection.sendall(head.encode() + b"Content-Length: 0\r\n\r\n")


def says_nothing(server: Slow, connection: socket.socket) -> None:
    server.stopping.wait(60)


KINDS = (drips_headers, drips_first_line, drips_body, drips_informational_responses, says_nothing)


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "TOTAL", SECONDS / SILENCE)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "none")


@pytest.fixture
def slow() -> Iterator[Callable[..., Slow]]:
    made: list[Slow] = []

    def make(serve: Callable[[Slow, socket.socket], None], **more: bool) -> Slow:
        made.append(Slow(serve, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def chat(home: Path, address: str, model: str, text: str = "Who?", **more: object) -> Status:
    with Gateway(Home(home), timeout=SILENCE) as gateway:
        messages = [{"role": "user", "content": text}]
        return gateway.complete(model, messages, api_base=f"{address}/v1", **more).status  # type: ignore[arg-type]


def streaming(home: Path, address: str, model: str) -> Status:
    with on_token(lambda _draft: None):
        return chat(home, address, model, drafted=True)


def openai_client(home: Path, address: str) -> Status:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_completions, "is_plain", lambda _model: False)
        return chat(home, address, "openai/any")


def embedding(_home: Path, address: str) -> Status:
    with pytest.raises(EmbeddingError) as caught:
        EmbeddingApi("openai/any", base=f"{address}/v1", timeout=SILENCE).embed(["one"])
    return caught.value.status


CLIENTS: dict[str, Callable[[Path, str], Status]] = {
    "plain": lambda home, address: chat(home, address, "openai/any"),
    "plain, streaming": lambda home, address: streaming(home, address, "openai/any"),
    "openai's client in LiteLLM": openai_client,
    "LiteLLM's own client": lambda home, address: chat(home, address, "anthropic/any"),
    "LiteLLM, streaming": lambda home, address: streaming(home, address, "anthropic/any"),
    "embeddings": embedding,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("client", CLIENTS)
def test_what_takes_too_long_in_all_is_a_timeout_after_one_request(
    slow: Callable[..., Slow], tmp_path: Path, client: str, kind: Callable[[Slow, socket.socket], None]
) -> None:
    server = slow(kind)
    assert CLIENTS[client](tmp_path, f"http://{server.address}") is Status.TIMEOUT
    assert server.n_connections == 1
    assert server.n_sent <= 4 * SECONDS / DRIP, "of 600"


@pytest.mark.parametrize("kind", [drips_tokens, redirects_in_a_circle], ids=lambda kind: kind.__name__)
def test_tokens_and_redirects_have_the_same_deadline(
    slow: Callable[..., Slow], tmp_path: Path, kind: Callable[[Slow, socket.socket], None]
) -> None:
    server = slow(kind)
    assert streaming(tmp_path, f"http://{server.address}", "openai/any") is Status.TIMEOUT
    assert server.n_connections + server.n_sent <= 4 * SECONDS / DRIP


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_takes_in_nothing_is_a_timeout(
    slow: Callable[..., Slow], tmp_path: Path, scheme: str
) -> None:
    """By https the handshake is not answered; by http a request of 30 MB is not read."""
    server = slow(says_nothing, reads=False)
    text = "a word " * (4 << 20 if scheme == "http" else 1)
    address = f"{scheme}://{server.address}"
    assert chat(tmp_path, address, "openai/any", text) is Status.TIMEOUT


def test_a_server_that_closes_midway_is_tried_again(
    slow: Callable[..., Slow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = answer("Paris.").body
    whole = HEAD + b"1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    def closes(server: Slow, connection: socket.socket) -> None:
        connection.sendall(whole if server.n_connections > 1 else whole[:-9])

    monkeypatch.setattr(http_limits, "TOTAL", 5)
    server = slow(closes)
    assert chat(tmp_path, f"http://{server.address}", "openai/any") is Status.OK
    assert server.n_connections == 2


def test_a_webhook_that_drips_is_given_up(slow: Callable[..., Slow], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "TIMEOUT", SILENCE)
    server = slow(drips_headers)
    event = AlertEvent("1", "best", "demo", "title", "text", "2026-11-24T05:00:00+00:00", "", {})
    with pytest.raises(channels.DeliveryError, match=r"ReadTimeout.*3 of 3 tries"):
        channels.Webhook(f"http://{server.address}/", wait=lambda _seconds: None).send(event)
    assert server.n_connections == channels.TRIES
    assert server.n_sent <= 4 * SECONDS / DRIP * channels.TRIES


def test_a_deadline_ends_with_its_request(slow: Callable[..., Slow]) -> None:
    """A later request of the same thread and client, without a limit or with a longer one, has its own."""
    body = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"

    def serve(server: Slow, connection: socket.socket) -> None:
        server.stopping.wait(DRIP * 8)
        server.drip(connection, *(body[n : n + 16] for n in range(0, len(body), 16)))

    with limit(httpx.Client()) as client:
        url = f"http://{slow(serve).address}/"
        with pytest.raises(httpx.TimeoutException):
            client.post(url, json={}, timeout=SILENCE)
        begin = monotonic()
        assert client.post(url, json={}, timeout=None).json() == {}
        assert client.post(url, json={}, timeout=60 * SILENCE).json() == {}
        assert monotonic() - begin > 2 * SECONDS

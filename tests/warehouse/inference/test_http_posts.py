"""Requests over connections of our own, against servers that speak HTTP in each of its ways."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import httpx
import pytest

from rag_assay.warehouse.inference import http_posts
from rag_assay.warehouse.inference.egress import Destination, only_to, origin

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: 2\r\n\r\n{}"


class Server:
    """Sends the next of some answers, as bytes, to each request.

    last: numbers of the answers after which it hangs up
    """

    def __init__(
        self, *answers: bytes, last: tuple[int, ...] = (), tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[bytes] = []
        self.n_connections = 0
        self._answers = iter(enumerate(answers))
        self._last, self._tls = last, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.n_connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        with (
            suppress(OSError),
            self._tls.wrap_socket(raw, server_side=True) if self._tls else raw as connection,
        ):
            while True:
                read = b""
                while not (read.endswith(b"\r\n\r\n") and b"Content-Length: 0" in read) and not read.endswith(
                    b"}"
                ):
                    data = connection.recv(1 << 16)
                    if not data:
                        return
                    read += data
                self.requests.append(read)
                number, found = next(self._answers)
                connection.sendall(found)
                if number in self._last:
                    return

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def start(*answers: bytes, **more: object) -> Server:
        made.append(Server(*answers, **more))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for one in made:
        one.close()


def post(
    server: Server, headers: dict[str, str] | None = None, path: str = "/v1"
) -> http_posts.Response | None:
    with only_to(Destination(frozenset({origin(server.url)}))):
        return http_posts.post(f"{server.url}{path}", b'{"a": 1}', headers or {}, 5.0, monotonic() + 10)


def content(response: http_posts.Response | None) -> bytes:
    assert response is not None
    return response.content


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (WHOLE, b"{}"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\nTrailer: 1\r\n\r\n", b"{}"),
        (HEAD + b"\r\n{}", b"{}"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", b"{}"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + WHOLE, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"[1]"), b"[1]"),
    ],
    ids=["length", "chunked", "until the end", "HTTP/1.0", "informational", "empty", "gzip"],
)
def test_a_body_is_read_however_it_ends(serve: Callable[..., Server], answer: bytes, expected: bytes) -> None:
    server = serve(answer, last=(0,))
    assert content(post(server)) == expected


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE[:-1],
        HEAD[:-5],
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        HEAD + b"Content-Length: two\r\n\r\n{}",
        HEAD + b"X: " + b"x" * 200_000,
        b"SMTP ready\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"",
    ],
)
def test_what_is_no_whole_response_is_an_error_that_may_pass(
    serve: Callable[..., Server], answer: bytes
) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        post(serve(answer, last=(0,)))


def test_a_connection_is_used_again_unless_the_server_has_hung_up(serve: Callable[..., Server]) -> None:
    server = serve(
        WHOLE, WHOLE, WHOLE, WHOLE.replace(b"Con", b"Connection: close\r\nCon", 1), WHOLE, last=(1,)
    )
    counts = []
    for _ in range(5):
        assert content(post(server)) == b"{}"
        counts.append(server.n_connections)
        threading.Event().wait(0.05)
    assert counts == [1, 1, 2, 2, 3]


def test_what_a_server_sends_unasked_is_no_answer_to_the_next_request(serve: Callable[..., Server]) -> None:
    server = serve(WHOLE + WHOLE.replace(b"{}", b"[]"), WHOLE)
    assert [content(post(server)) for _ in range(2)] == [b"{}", b"{}"]
    assert server.n_connections == 2


@pytest.mark.parametrize(("status", "method"), [(307, b"POST"), (308, b"POST"), (302, b"GET"), (303, b"GET")])
def test_a_redirect_is_followed_as_by_a_browser(
    serve: Callable[..., Server], status: int, method: bytes
) -> None:
    away = f"HTTP/1.1 {status} X\r\nLocation: /v2?x=%20\r\nContent-Length: 0\r\n\r\n".encode()
    server = serve(away, WHOLE)
    assert content(post(server, {"Authorization": "Bearer key"})) == b"{}"
    assert server.requests[1].startswith(method + b" /v2?x=%20 HTTP/1.1\r\n")
    assert b"Authorization: Bearer key\r\n" in server.requests[1]
    assert server.requests[1].endswith(b'{"a": 1}') is (method == b"POST")
    circle = away.replace(b"/v2?x=%20", b"/v1")
    with pytest.raises(httpx.TooManyRedirects):
        post(serve(*[circle] * 30))


def test_a_header_with_a_line_break_is_not_sent(serve: Callable[..., Server]) -> None:
    server = serve(WHOLE)
    with pytest.raises(httpx.LocalProtocolError) as found:
        post(server, {"Authorization": "Bearer key\r\nX: y"})
    assert "key" not in str(found.value)
    assert server.n_connections == 0


def test_a_proxy_of_the_environment_is_for_httpx(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(WHOLE)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert post(server) is None
    assert server.n_connections == 0
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert content(post(server)) == b"{}"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_server_over_tls_is_asked_only_with_a_certificate_that_is_trusted(
    serve: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, path = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    subprocess.run([*made, "-keyout", key, "-out", path], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key)
    server = serve(WHOLE, WHOLE, tls=context)
    http_posts._tls.cache_clear()
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        post(server)
    assert server.requests == []
    http_posts._tls.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    assert [content(post(server)) for _ in range(2)] == [b"{}"] * 2
    assert server.n_connections == 2
    http_posts._tls.cache_clear()


def test_an_error_has_its_headers_and_reason(serve: Callable[..., Server]) -> None:
    head = (
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 2\r\n\r\n{}"
    )
    response = post(serve(head))
    assert response is not None
    assert (response.status_code, response.is_success, response.reason_phrase) == (
        429,
        False,
        "Too Many Requests",
    )
    assert (response.headers["retry-after"], response.headers["x-a"]) == ("2", "1, 2")
    assert json.loads(response.content) == {}

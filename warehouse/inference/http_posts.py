"""Posts requests to model servers over HTTP/1.1, for a fifth of HTTPX's processor time."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from time import monotonic
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass

import httpx
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from rag_assay.warehouse.inference import http_limits
from rag_assay.warehouse.inference.egress import admit

KEPT = 5.0  # seconds that a connection is kept for the next request, as by HTTPX: servers keep theirs as long
LONGEST_HEAD = 100 * 1024  # bytes of a response before its body, as in h11
MOST_REDIRECTS = 20
_REDIRECTS = {301, 302, 303, 307, 308}
_KEEP_METHOD = {307, 308}
_READ = 1 << 16  # bytes


class Response(NamedTuple):
    """A response that was read whole; the names of its headers are in lower case."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    reason_phrase: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300


class _Server(NamedTuple):
    scheme: str
    host: str
    port: int


_idle: defaultdict[_Server, list[_Connection]] = defaultdict(list)
_idle_lock = threading.Lock()


def post(
    url: str, body: bytes, headers: Mapping[str, str], timeout: float, deadline: float
) -> Response | None:
    """Post JSON, and follow redirects; None where HTTPX has to: through a proxy.

    timeout: seconds of silence; deadline: of the whole reply, by `monotonic`
    Raises NotAllowedError (server not allowed), httpx.HTTPError and httpx.InvalidURL.
    """
    at, method = _parsed(url), "POST"
    for _ in range(MOST_REDIRECTS):
        target, more = admit(at)
        port = target.port or (443 if target.scheme == "https" else 80)
        server = _Server(target.scheme, target.raw_host.decode("ascii"), port)
        request = _request(method, target, body, {**headers, **more})
        connection = _open_connection(server)
        if connection is None:
            proxies = getproxies()
            if (proxies.get(server.scheme) or proxies.get("all")) and not proxy_bypass(server.host):
                return None
            connection = _Connection(server)
        response = connection.exchange(request, timeout, deadline)
        if response.status_code not in _REDIRECTS or "location" not in response.headers:
            return response
        at = at.join(response.headers["location"])
        if response.status_code not in _KEEP_METHOD:
            method, body = "GET", b""
    raise httpx.TooManyRedirects("Exceeded maximum allowed redirects.")


@lru_cache(256)
def _parsed(url: str) -> httpx.URL:
    return httpx.URL(url)


def _request(method: str, url: httpx.URL, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Raises httpx.LocalProtocolError: a header has a line break, as a key may."""
    given = {name.lower() for name in headers}
    own = {
        "Host": url.netloc.decode("ascii"),
        "Accept": "*/*",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": "rag-assay",
        "Content-Length": len(body),
        "Content-Type": "application/json",
    }
    lines = [
        f"{method} {url.raw_path.decode('ascii')} HTTP/1.1",
        *(f"{name}: {value}" for name, value in own.items() if name.lower() not in given),
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    head = "\n".join(lines)
    if head.count("\n") >= len(lines) or "\r" in head or "\0" in head:
        raise httpx.LocalProtocolError("Illegal header value: it holds a line break")
    return f"{head}\n\n".replace("\n", "\r\n").encode("ascii") + body


def _open_connection(server: _Server) -> _Connection | None:
    while True:
        with _idle_lock:
            connection = _idle[server].pop() if _idle[server] else None
        if connection is None or connection.is_open():
            return connection
        connection.close()


class _Connection:
    def __init__(self, server: _Server) -> None:
        self._server = server
        self._socket: socket.socket | None = None
        self._idle_since = 0.0
        self._allowed: float | None = None  # seconds that an operation may take

    def exchange(self, request: bytes, timeout: float, deadline: float) -> Response:
        reply = _Reply()
        try:
            connected = self._socket = self._socket or self._connected(timeout, deadline)
            # A server may answer and hang up before it has read the whole request.
            with suppress(httpx.WriteError), _raising(httpx.WriteTimeout, httpx.WriteError):
                for begin in range(0, len(request), http_limits.PIECE):
                    self._allow(_left(timeout, deadline, httpx.WriteTimeout))
                    connected.sendall(request[begin : begin + http_limits.PIECE])
            with _raising(httpx.ReadTimeout, httpx.ReadError):
                while not reply.is_whole:
                    self._allow(_left(timeout, deadline, httpx.ReadTimeout))
                    reply.add(connected.recv(_READ))
        finally:
            if reply.keeps_connection:
                self._idle_since = monotonic()
                with _idle_lock:
                    _idle[self._server].append(self)
            else:
                self.close()
        return reply.response()

    def _connected(self, timeout: float, deadline: float) -> socket.socket:
        scheme, host, port = self._server
        with _raising(httpx.ConnectTimeout, httpx.ConnectError):
            seconds = _left(timeout, deadline, httpx.ConnectTimeout)
            found = self._socket = socket.create_connection((host, port), seconds)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if scheme == "https":
                found.settimeout(_left(timeout, deadline, httpx.ConnectTimeout))
                return _tls().wrap_socket(found, server_hostname=host)
            found.settimeout(None)
            return found

    def _allow(self, seconds: float) -> None:
        if self._socket is None or seconds == self._allowed:
            return
        self._allowed = seconds
        if self._server.scheme == "https":
            self._socket.settimeout(seconds)
        else:  # by the system, which waits and reads in one call
            whole, part = divmod(max(seconds, 0.001), 1)  # 0 is no limit
            limit = struct.pack("ll", int(whole), int(part * 1_000_000))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def is_open(self) -> bool:
        if monotonic() - self._idle_since > KEPT:
            return False
        poll = select.poll()
        poll.register(self._socket or -1, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


class _Reply:
    """Puts a response together from the bytes that come; informational ones before it are passed over."""

    def __init__(self) -> None:
        self.is_whole = self.keeps_connection = False
        self._parser = HttpResponseParser(self)
        self._begin = b""  # bytes of the first head, until it is whole
        self._has_begun = False
        self._n_bytes = 0
        self._status_code = 0  # 0: the head is not whole
        self._reason = b""
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []

    def add(self, data: bytes) -> None:
        """No data: the server has hung up. Raises ReplyTooLargeError and httpx.RemoteProtocolError."""
        if not data:
            has_end = "content-length" in self._headers or "transfer-encoding" in self._headers
            if not self._status_code or has_end:
                raise httpx.RemoteProtocolError("the server hung up before its response was whole")
            self.is_whole = True
            return
        if not self._has_begun:  # what is no HTTP is refused as a whole, not at its first byte
            self._begin += data
            if len(self._begin) > LONGEST_HEAD:
                raise httpx.RemoteProtocolError("the head of the response is too long")
            self._has_begun = b"\n\r\n" in self._begin
            data = self._begin
            if not self._has_begun:
                return
        self._n_bytes += len(data)
        if self._n_bytes > http_limits.MOST_BYTES:
            raise http_limits.ReplyTooLargeError
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.keeps_connection = False
            if not self.is_whole:  # else it sent more than its response
                raise httpx.RemoteProtocolError(f"the response is not HTTP/1.1 ({error})") from None

    def response(self) -> Response:
        del self._parser  # which knows this object
        content = b"".join(http_limits.limited(self._parts, http_limits.encoding_of(self._headers)))
        return Response(self._status_code, self._headers, content, self._reason.decode("latin-1"))

    def on_message_begin(self) -> None:
        if self.is_whole:
            raise ValueError("more than one response")  # which ends the parser's work
        self._status_code, self._reason, self._headers = 0, b"", {}

    def on_status(self, status: bytes) -> None:
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        known, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[known] = f"{self._headers[known]}, {text}" if known in self._headers else text

    def on_headers_complete(self) -> None:
        code = self._parser.get_status_code()
        self._status_code = code if code >= 200 else 0

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self.is_whole = bool(self._status_code)
        self.keeps_connection = self.is_whole and self._parser.should_keep_alive()


@cache
def _tls() -> ssl.SSLContext:
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _left(timeout: float, deadline: float, error: type[httpx.TimeoutException]) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise error("the reply was not whole in time")
    return min(timeout, left)


@contextmanager
def _raising(timeout: type[httpx.TimeoutException], other: type[httpx.NetworkError]) -> Iterator[None]:
    try:
        yield
    except (TimeoutError, BlockingIOError) as error:  # the latter by the system's own limit
        raise timeout(str(error)) from error
    except OSError as error:
        raise other(str(error)) from error

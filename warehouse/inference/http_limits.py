"""Limits the bytes and seconds of a whole response; HTTPX's timeout is for one read of a socket."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from ssl import SSLContext
from time import monotonic
from typing import Any

import httpcore
import httpx

MOST_BYTES = 32 << 20  # 256 embeddings of 3,072 numbers are about 17 MB of JSON
TOTAL = 5  # a reply may take so many times as long as its server may stay silent
PIECE = 1 << 16  # bytes of a request between two looks at the clock
ENCODINGS = {"Accept-Encoding": "gzip, deflate"}  # which are decompressed here


class ReplyTooLargeError(httpx.TransportError):
    """A server sent more bytes than any reply needs."""

    def __init__(self) -> None:
        super().__init__(f"the reply has more than {MOST_BYTES / 2**20:.0f} MB and was cut off")


class _Deadline(threading.local):
    at: float | None = None


_deadline = _Deadline()


def _left(timeout: float | None, error: type[Exception]) -> float | None:
    if _deadline.at is None:
        return timeout
    left = _deadline.at - monotonic()
    if left <= 0:
        raise error("the reply was not whole in time")
    return left if timeout is None else min(timeout, left)


class _Stream(httpcore.NetworkStream):
    """A connection whose operations end at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In pieces, for a server may take in a long request little by little.
        for begin in range(0, len(buffer), PIECE):
            piece = buffer[begin : begin + PIECE]
            self._stream.write(piece, _left(timeout, httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, seconds))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, backend: httpcore.NetworkBackend) -> None:
        self._backend = backend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        seconds = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._backend.connect_tcp(host, port, seconds, local_address, socket_options))


class _LimitedStream(httpx.SyncByteStream):
    """The body of a response, decompressed, and cut off by an error where it passes a limit."""

    def __init__(self, stream: httpx.SyncByteStream, encoding: str, deadline: float | None) -> None:
        self._stream = stream
        self._encoding = encoding
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        _deadline.at = self._deadline  # in whichever thread the body is read
        return limited(self._stream, self._encoding)

    def close(self) -> None:
        self._stream.close()


def limited(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Raises ReplyTooLargeError (over MOST_BYTES) and httpx.DecodingError."""
    n_bytes = 0
    for part in _decompressed(parts, encoding) if encoding else parts:
        n_bytes += len(part)
        if n_bytes > MOST_BYTES:
            raise ReplyTooLargeError
        yield part


def _decompressed(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by the header
    for raw in parts:
        data = raw
        while data:
            try:
                yield inflate.decompress(data, 1 << 20)
            except zlib.error as error:
                raise httpx.DecodingError(f"the reply is not {encoding}: {error}") from error
            data = inflate.unconsumed_tail
    yield inflate.flush()


def encoding_of(headers: Mapping[str, str]) -> str:
    """Empty: not compressed. Raises httpx.DecodingError: in a way not asked for."""
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in {"", "identity", "gzip", "deflate"}:
        raise httpx.DecodingError(
            f"the server compressed its reply in another way than requested: {encoding}"
        )
    return "" if encoding == "identity" else encoding


def limit(client: httpx.Client) -> httpx.Client:
    """Put the limits on all requests of a client: TOTAL times the silence that a request allows."""
    for transport in (client._transport, *client._mounts.values()):  # HTTPX itself takes no backend
        if isinstance(transport, httpx.HTTPTransport):
            transport._pool._network_backend = _Backend(transport._pool._network_backend)
    client.event_hooks = {
        "request": [*client.event_hooks["request"], _begin],
        "response": [_limit_body, *client.event_hooks["response"]],
    }
    return client


def _begin(request: httpx.Request) -> None:
    silence = request.extensions.get("timeout", {}).get("read")
    if "deadline" not in request.extensions:  # else it follows a redirect
        request.extensions["deadline"] = silence and monotonic() + silence * TOTAL
    _deadline.at = request.extensions["deadline"]


def _limit_body(response: httpx.Response) -> None:
    encoding = encoding_of(response.headers)
    if encoding:
        del response.headers["content-encoding"]  # decompressed here
    assert isinstance(response.stream, httpx.SyncByteStream)  # noqa: S101 -- these clients are synchronous
    deadline = response.request.extensions.get("deadline")
    response.stream = _LimitedStream(response.stream, encoding, deadline)


def limit_litellm(litellm: Any) -> None:
    if litellm.client_session is None:  # used for OpenAI and whatever speaks its protocol
        from litellm.llms.custom_httpx.http_handler import get_ssl_configuration

        litellm.client_session = limit(
            httpx.Client(verify=get_ssl_configuration(), follow_redirects=True, headers=ENCODINGS)
        )
    from litellm.llms.custom_httpx.http_handler import HTTPHandler  # used for all other providers

    if not hasattr(HTTPHandler, "unlimited_client"):
        HTTPHandler.unlimited_client = HTTPHandler.create_client
        HTTPHandler.create_client = _limited_client


def _limited_client(handler: Any) -> httpx.Client:
    client: httpx.Client = handler.unlimited_client()
    client.headers.update(ENCODINGS)
    return limit(client)

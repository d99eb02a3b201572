"""Limits the bytes and seconds of a model server's response."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from time import monotonic
from typing import Any

import httpx

MOST_BYTES = 32 << 20  # 256 embeddings of 3,072 numbers are about 17 MB of JSON
TOTAL = 5  # a reply may take so many times as long as its server may stay silent


class ReplyTooLargeError(httpx.TransportError):
    """A server sent more bytes than any reply needs."""


class _LimitedStream(httpx.SyncByteStream):
    """The body of a response, cut off by an error where it passes a limit.

    most_bytes: after decompression
    seconds: in all, from the moment when the first line of the response was read
    """

    def __init__(
        self, stream: httpx.SyncByteStream, encoding: str, most_bytes: int, seconds: float | None
    ) -> None:
        self._stream = stream
        self._encoding = encoding
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._deadline = monotonic() + seconds if seconds else None

    def __iter__(self) -> Iterator[bytes]:
        n_bytes = 0
        for part in self._decoded():
            n_bytes += len(part)
            if n_bytes > self._most_bytes:
                message = f"the reply has more than {self._most_bytes / 2**20:.0f} MB and was cut off"
                raise ReplyTooLargeError(message)
            if self._deadline is not None and monotonic() > self._deadline:
                raise httpx.ReadTimeout(f"the reply was not whole after {self._seconds:.0f} seconds")
            yield part

    def _decoded(self) -> Iterator[bytes]:
        """Decompress step by step, so that a few bytes cannot become many before they are counted."""
        if not self._encoding:
            yield from self._stream
            return
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by the header
        for raw in self._stream:
            data = raw
            while data:
                try:
                    yield inflate.decompress(data, 1 << 20)
                except zlib.error as error:
                    raise httpx.DecodingError(f"the reply is no {self._encoding}: {error}") from error
                data = inflate.unconsumed_tail
        yield inflate.flush()

    def close(self) -> None:
        self._stream.close()


def limit(response: httpx.Response) -> None:
    """Put the limits on a response whose body has not been read: a hook for `httpx.Client.event_hooks`.

    The seconds in all are five times what the request allows its server to stay silent.

    Raises:
        httpx.DecodingError: it is compressed in a way that was not asked for.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding == "identity":
        encoding = ""
    if encoding not in {"", "gzip", "deflate"}:
        raise httpx.DecodingError(f"the server compressed its reply as nobody had asked for: {encoding}")
    if encoding:
        del response.headers["content-encoding"]  # decompressed here
    silence = response.request.extensions.get("timeout", {}).get("read")
    assert isinstance(response.stream, httpx.SyncByteStream)  # noqa: S101 -- these clients are synchronous
    response.stream = _LimitedStream(response.stream, encoding, MOST_BYTES, silence and silence * TOTAL)


def limit_litellm(litellm: Any) -> None:
    """Let every client that LiteLLM makes in this process read its replies within the limits."""
    if litellm.client_session is None:  # used for OpenAI and whatever speaks its protocol
        from litellm.llms.custom_httpx.http_handler import get_ssl_configuration

        litellm.client_session = httpx.Client(
            verify=get_ssl_configuration(),
            follow_redirects=True,
            headers={"Accept-Encoding": "gzip, deflate"},
            event_hooks={"response": [limit]},
        )
    from litellm.llms.custom_httpx.http_handler import HTTPHandler  # used for all other providers

    if not hasattr(HTTPHandler, "unlimited_client"):
        HTTPHandler.unlimited_client = HTTPHandler.create_client
        HTTPHandler.create_client = _limited_client


def _limited_client(handler: Any) -> httpx.Client:
    client: httpx.Client = handler.unlimited_client()
    client.headers["Accept-Encoding"] = "gzip, deflate"
    client.event_hooks = {**client.event_hooks, "response": [limit, *client.event_hooks["response"]]}
    return client

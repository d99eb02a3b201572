"""Refuses compressed bodies that end early, of which Scrapy would take the first part."""

from __future__ import annotations

import zlib
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response

TRUNCATED = "truncated: the packed body ends early"
_OUTPUT = 1 << 16


class TruncatedError(Exception):
    """A body does not go on to the end of its packing."""


class WholeBodiesMiddleware(HttpCompressionMiddleware):
    """Unpacks bodies; a page whose body ends early is asked for again, and then is a failed page."""

    crawler: Crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = super().from_crawler(crawler)
        middleware.crawler = crawler
        return middleware

    def process_response(
        self, request: Request, response: Response, spider: Any = None
    ) -> Request | Response:
        """Return the response unpacked, or a retry; `IgnoreRequest` after too many."""
        try:
            return super().process_response(request, response)
        except TruncatedError as error:
            if response.status != 200:  # what counts is its status
                headers = {
                    name: value for name, value in response.headers.items() if name != b"Content-Encoding"
                }
                return response.replace(body=b"", headers=headers)
            again = get_retry_request(request, spider=self.crawler.spider, reason=TRUNCATED)
            if again is None:
                raise IgnoreRequest(TRUNCATED) from error
            return again

    @staticmethod
    def _decode(body: bytes, encoding: bytes, max_size: int) -> bytes:
        unpacked = HttpCompressionMiddleware._decode(body, encoding, max_size)  # which keeps to `max_size`
        if body and ends_early(body, encoding.decode("ascii")):
            raise TruncatedError
        return unpacked


def ends_early(body: bytes, encoding: str) -> bool:
    """Return whether a body stops before its compression ends. ``encoding``: gzip, x-gzip, deflate, br or
    zstd.

    A wrong checksum, or anything after the end, is tolerated: servers get these wrong.

    >>> import gzip
    >>> ends_early(gzip.compress(b"whole"), "gzip"), ends_early(gzip.compress(b"whole")[:-9], "gzip")
    (False, True)
    """
    if encoding in {"gzip", "x-gzip"}:
        while body.startswith(b"\x1f\x8b"):  # there may be several members
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                _drain(unpacker, body)
            except zlib.error as error:
                return "incorrect" not in str(error)
            if not unpacker.eof:
                return True
            body = unpacker.unused_data
        return False
    if encoding == "deflate":
        return not any(_is_whole(body, bits) for bits in (zlib.MAX_WBITS, -zlib.MAX_WBITS))
    if encoding == "br":
        return _brotli_ends_early(body)
    return encoding == "zstd" and _zstd_ends_early(body)


def _is_whole(body: bytes, bits: int) -> bool:
    unpacker = zlib.decompressobj(bits)
    try:
        _drain(unpacker, body)
    except zlib.error as error:
        return "incorrect data check" in str(error)
    return unpacker.eof


def _drain(unpacker: Any, body: bytes) -> None:
    """Unpack a body and keep nothing of it."""
    unpacker.decompress(body, _OUTPUT)
    while unpacker.unconsumed_tail and not unpacker.eof:
        unpacker.decompress(unpacker.unconsumed_tail, _OUTPUT)
    if not unpacker.eof:
        unpacker.flush()


def _brotli_ends_early(body: bytes) -> bool:
    import brotli  # type: ignore[import-untyped]

    unpacker = brotli.Decompressor()
    unpacker.process(body, output_buffer_limit=_OUTPUT)
    while not unpacker.is_finished():
        if not unpacker.process(b"", output_buffer_limit=_OUTPUT):
            return True
    return False


def _zstd_ends_early(body: bytes) -> bool:
    from scrapy.utils import _compression

    while body:
        unpacker = _compression.zstd.ZstdDecompressor()
        unpacker.decompress(body, max_length=_OUTPUT)
        while not unpacker.eof and not unpacker.needs_input:
            unpacker.decompress(b"", max_length=_OUTPUT)
        if not unpacker.eof:
            return True
        body = unpacker.unused_data
    return False

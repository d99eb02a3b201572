"""Limits the size of HTTP response headers; Scrapy limits bodies only."""

from __future__ import annotations

from typing import Any

from scrapy.core.downloader.handlers.http11 import _LenientHTTP11ClientFactory, _LenientHTTP11ClientProtocol
from twisted.internet.error import ConnectionAborted
from twisted.python.failure import Failure

HEAD_BYTES = 1_000_000
_BEFORE_THE_BODY = {"STATUS", "HEADER"}


class _BoundedHead(_LenientHTTP11ClientProtocol):
    """Gives up a connection whose answer has more than `HEAD_BYTES` bytes before its body."""

    _answer: Any = None
    _bytes = 0

    def dataReceived(self, bytes: bytes) -> None:  # noqa: N802, A002 (Twisted's names)
        """Count the bytes of a head, and pass them on."""
        answer = self._parser
        if answer is not self._answer:  # a connection has many answers, one after the other
            self._answer, self._bytes = answer, 0
        if getattr(answer, "state", None) in _BEFORE_THE_BODY:
            self._bytes += len(bytes)
            if self._bytes > HEAD_BYTES:
                self._giveUp(Failure(ConnectionAborted(f"a head of more than {HEAD_BYTES} bytes")))
                return
        super().dataReceived(bytes)


class BoundedHeadFactory(_LenientHTTP11ClientFactory):
    """Makes the protocols of a connection pool."""

    def buildProtocol(self, addr: Any) -> _BoundedHead:  # noqa: N802 (Twisted's name)
        """Make the protocol of one connection."""
        return _BoundedHead(self._quiescentCallback)

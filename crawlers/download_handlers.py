"""Download handlers: public addresses only, bounded response heads, the sample sites on loopback."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from scrapy import Request
from scrapy.core.downloader.handlers.http11 import (
    HTTP11DownloadHandler,
    _LenientHTTP11ClientFactory,
    _LenientHTTP11ClientProtocol,
)
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, IgnoreRequest
from scrapy.http import Response
from scrapy.resolver import CachingHostnameResolver
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IHostResolution, IResolutionReceiver
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from rag_assay.warehouse.errors import InputError

HEAD_BYTES = 1_000_000
_BEFORE_THE_BODY = {"STATUS", "HEADER"}


class _BoundedHead(_LenientHTTP11ClientProtocol):
    """Gives up a connection whose answer has more than `HEAD_BYTES` bytes before its body."""

    _answer: Any = None
    _bytes = 0

    def dataReceived(self, bytes: bytes) -> None:  # noqa: N802, A002 (Twisted's names)
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
        return _BoundedHead(self._quiescentCallback)


_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")


def is_public(address: str) -> bool:
    """Return whether an IP address is public. An IPv6 address that embeds an IPv4 address is judged by that.

    >>> [is_public(one) for one in ("93.184.215.14", "10.0.0.1", "::1", "::ffff:127.0.0.1", "2606:4700::1")]
    [True, False, False, False, True]
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and (inner := _embedded(found)):
        found = inner
    return found.is_global and not (
        found.is_multicast or found.is_reserved or getattr(found, "is_site_local", False)
    )


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to (RFC 4291, 3056, 4380 and 6052), or None."""
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


@implementer(IResolutionReceiver)
class _Sieve:
    def __init__(self, receiver: Any, host: str, refused: dict[str, str]) -> None:
        self._receiver, self._host, self._refused = receiver, host, refused

    def resolutionBegan(self, resolution: IHostResolution) -> None:  # noqa: N802 (Twisted's name)
        self._receiver.resolutionBegan(resolution)

    def addressResolved(self, address: Any) -> None:  # noqa: N802
        if is_public(address.host):
            self._refused.pop(self._host, None)
            self._receiver.addressResolved(address)
        else:
            self._refused[self._host] = address.host

    def resolutionComplete(self) -> None:  # noqa: N802
        self._receiver.resolutionComplete()


class GuardedResolver(CachingHostnameResolver):
    """Scrapy's resolver for IPv4 and IPv6, which gives no address that the source does not allow."""

    def __init__(self, reactor: Any, cache_size: int, allow_private: bool) -> None:
        super().__init__(reactor, cache_size)
        self._allow_private = allow_private
        self.refused: dict[str, str] = {}  # host -> its address

    @classmethod
    def from_crawler(cls, crawler: Any, reactor: Any) -> Self:
        settings = crawler.settings
        allow = settings.getbool("ALLOW_PRIVATE") or bool(settings.get("MIRROR"))
        return cls(reactor, settings.getint("DNSCACHE_SIZE"), allow)

    def resolveHostName(  # noqa: N802
        self,
        resolutionReceiver: Any,  # noqa: N803
        hostName: str,  # noqa: N803
        *args: Any,
        **options: Any,
    ) -> Any:
        receiver = (
            resolutionReceiver if self._allow_private else _Sieve(resolutionReceiver, hostName, self.refused)
        )
        return super().resolveHostName(receiver, hostName, *args, **options)


class GuardedHandler(HTTP11DownloadHandler):
    """Downloads by HTTP, and says of a host without a public address why it was not asked."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._pool._factory = BoundedHeadFactory

    async def download_request(self, request: Request) -> Response:
        from twisted.internet import reactor

        try:
            return await super().download_request(request)
        except CannotResolveHostError as error:
            resolver = reactor.nameResolver
            host = urlsplit(request.url).hostname or ""
            refused = resolver.refused.get(host) if isinstance(resolver, GuardedResolver) else None
            if refused is None:
                raise
            raise IgnoreRequest(f"not a public address: {refused} (`allow_private` allows it)") from error


SAMPLE_SITES = Path(__file__).parent / "sample_site"
SAMPLE_DOMAIN = "sample.example"


class MirrorHandler(HTTP11DownloadHandler):
    """Sends requests for the sample hosts to a loopback server; other hosts are refused."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._base: str = crawler.settings["MIRROR"].rstrip("/")

    async def download_request(self, request: Request) -> Response:
        mirrored = request.replace(url=mirrored_url(self._base, request.url))
        response = await super().download_request(mirrored)
        request.meta.update(mirrored.meta)  # the download latency, which AutoThrottle reads
        return response.replace(url=request.url)


def mirrored_url(base: str, url: str) -> str:
    """Return where the mirror at ``base`` answers for ``url``; raise `IgnoreRequest` for other hosts.

    >>> mirrored_url("http://127.0.0.1:8000", "https://blog.sample.example/page/2/?a=b")
    'http://127.0.0.1:8000/blog.sample.example/page/2/?a=b'
    """
    parts = urlsplit(url)
    if not is_mirrored(url):
        raise IgnoreRequest(f"not a host of the sample site: {parts.hostname}")
    return base + urlunsplit(("", "", f"/{parts.hostname}{parts.path or '/'}", parts.query, ""))


def is_mirrored(url: str) -> bool:
    name, _, domain = (urlsplit(url).hostname or "").partition(".")
    return domain == SAMPLE_DOMAIN and (SAMPLE_SITES / name / "routes.json").is_file()


def check_mirrored(urls: tuple[str, ...]) -> None:
    bad = [url for url in urls if not is_mirrored(url)]
    if bad:
        known = sorted(f"{path.parent.name}.{SAMPLE_DOMAIN}" for path in SAMPLE_SITES.glob("*/routes.json"))
        raise InputError(
            *(
                f"start: {url} is not on the sample site, which has {', '.join(known)}. "
                "Leave out `mirror` to crawl other hosts."
                for url in bad
            )
        )


def settings_of(base: str) -> dict[str, Any]:
    handler = "rag_assay.crawlers.download_handlers.MirrorHandler"
    return {"MIRROR": base, "DOWNLOAD_HANDLERS": {"http": handler, "https": handler}}

"""Limits connections to public IP addresses, unless a source sets `allow_private`.

The check stands where a name becomes an address, and the connection is made to the very address that was
checked. So it holds for redirects and robots.txt too, for hosts that are written as a number
(`http://2130706433/`), and for names that change their address between two look-ups (DNS rebinding).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, IgnoreRequest
from scrapy.http import Response
from scrapy.resolver import CachingHostnameResolver
from twisted.internet.interfaces import IHostResolution, IResolutionReceiver
from zope.interface import implementer  # type: ignore[import-untyped]

from rag_assay.crawlers.heads import BoundedHeadFactory

_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the internet at large.

    Not public are private, loopback, link-local, multicast, reserved and unspecified addresses, and IPv6
    addresses that stand for such an IPv4 address.

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
    """Passes on the public addresses of one look-up."""

    def __init__(self, receiver: Any, host: str, refused: dict[str, str]) -> None:
        self._receiver, self._host, self._refused = receiver, host, refused

    def resolutionBegan(self, resolution: IHostResolution) -> None:  # noqa: N802 (Twisted's name)
        """Pass it on."""
        self._receiver.resolutionBegan(resolution)

    def addressResolved(self, address: Any) -> None:  # noqa: N802
        """Pass a public address on; remember another one as the reason."""
        if is_public(address.host):
            self._refused.pop(self._host, None)
            self._receiver.addressResolved(address)
        else:
            self._refused[self._host] = address.host

    def resolutionComplete(self) -> None:  # noqa: N802
        """Pass it on."""
        self._receiver.resolutionComplete()


class GuardedResolver(CachingHostnameResolver):
    """Scrapy's resolver for IPv4 and IPv6, which gives no address that the source does not allow."""

    def __init__(self, reactor: Any, cache_size: int, allow_private: bool) -> None:
        super().__init__(reactor, cache_size)
        self._allow_private = allow_private
        self.refused: dict[str, str] = {}  # host -> its address

    @classmethod
    def from_crawler(cls, crawler: Any, reactor: Any) -> Self:
        """Make the resolver of a process; its settings say `ALLOW_PRIVATE`, or `MIRROR`, which is ours."""
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
        """Look a host up; its addresses reach the receiver sieved, from the cache too."""
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
        """Download; raise `IgnoreRequest`, which is not tried again, where the address is refused."""
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

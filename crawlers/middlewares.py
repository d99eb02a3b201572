"""Between spiders and the network: conditional requests, early refusals, politeness, the mirror."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin, urlsplit, urlunsplit

from scrapy import Request, signals
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.robotstxt import RobotParser

from warehouse.errors import CorruptFileError, InputError
from warehouse.pages import media_type, read_body

SAMPLE_SITES = Path(__file__).parent / "sample_site"
SAMPLE_DOMAIN = "sample.example"

_VALIDATORS = (("If-None-Match", "etag"), ("If-Modified-Since", "last_modified"))


class RevalidateMiddleware:
    """Asks for stored pages only if they changed, and answers 304 from the store.

    Spiders see a full response either way, so that the links of an unchanged page are followed too.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    def process_request(self, request: Request) -> Response | None:
        """Add the validators of the page stored under exactly this URL; a redirect brings none along.

        A page that a killed crawl fetched, and this one carries on, is answered from the store.
        """
        for header, _ in _VALIDATORS:
            request.headers.pop(header, None)
        spider = self.crawler.spider
        row = spider.stored(request.url)
        if not row or row["sha256"] is None or request.meta.get("unconditional"):
            return None
        if spider.store.fresh(request.url) and (answer := self._stored(request, row, Headers(), request.url)):
            request.meta["fetched_at"] = row["fetched_at"]
            return answer
        for header, name in _VALIDATORS:
            if row[name]:
                request.headers[header] = row[name]
        return None

    def process_response(self, request: Request, response: Response) -> Response | Request:
        """Turn 304 into the stored page; where its file is damaged, ask again without a condition."""
        if response.status != 304:
            return response
        row = self.crawler.spider.stored(request.url)
        if row is None or request.meta.get("unconditional"):
            return response  # nobody asked for that: a failed page, status 304
        stored = self._stored(request, row, Headers(response.headers), response.url)
        return stored or request.replace(meta={**request.meta, "unconditional": True}, dont_filter=True)

    def _stored(self, request: Request, row: dict[str, Any], headers: Headers, url: str) -> Response | None:
        """Return the stored page as it was once answered; None where its file is damaged."""
        try:
            body = read_body(self.crawler.spider.store.home, row["sha256"])
        except CorruptFileError:
            return None
        for name, value in (("Content-Type", row["content_type"]), ("ETag", row["etag"])):
            if value:
                headers.setdefault(name, value)
        if row["last_modified"]:
            headers.setdefault("Last-Modified", row["last_modified"])
        kind = responsetypes.from_args(headers=headers, url=url, body=body)
        return kind(url, 200, headers, body, request=request)


class OtherHostMiddleware:
    """Turns a redirect to where the source does not lead into a failure with that reason."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        """Let all pass but a redirect that leaves the source's hosts, or what it allows of them."""
        location = response.headers.get("Location")
        if location and response.status in {301, 302, 303, 307, 308}:
            target = urljoin(request.url, location.decode("latin-1"))
            if why := self.crawler.spider.why_not(target, start=request.meta.get("hops") == 0):
                raise IgnoreRequest(f"redirects to {why}")
            if response.status in {301, 308} and self.crawler.spider.store:
                self.crawler.spider.store.moved(request.url)
        return response


class BackOffMiddleware:
    """Slows down for a host that asks for it by 429 or 503 with Retry-After; AutoThrottle speeds up again."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        """Lengthen the delay of the host to what it asks for, one minute at most."""
        wanted = (response.headers.get("Retry-After") or b"").decode("latin-1").strip()
        if response.status in {429, 503} and wanted.isdecimal():
            slow_down(self.crawler, request, float(wanted))
        return response


class HeadersExtension:
    """Stops a download at its headers where the body could not be used, so that no image is downloaded."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        crawler.signals.connect(self.headers_received, signals.headers_received)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl."""
        return cls(crawler)

    def headers_received(self, headers: Headers, request: Request) -> None:
        """End a download of a media type that the spider has no use for."""
        if urlsplit(request.url).path == "/robots.txt":
            return
        kind = media_type((headers.get("Content-Type") or b"").decode("latin-1"))
        if kind and not self.crawler.spider.is_readable(kind):
            raise StopDownload(fail=False)


class BytesExtension:
    """Counts the bytes of all bodies as they come in, those of refused pages too."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        crawler.signals.connect(self.bytes_received, signals.bytes_received)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl."""
        return cls(crawler)

    def bytes_received(self, data: bytes) -> None:
        """Add a part of a body."""
        self.crawler.spider.received_bytes += len(data)


class CrawlDelayExtension:
    """Keeps to the Crawl-delay of a robots.txt where it is longer than the source's own delay."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self._agent = crawler.settings["ROBOTSTXT_USER_AGENT"]
        crawler.signals.connect(self.robots_parsed, signals.robots_parsed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl."""
        return cls(crawler)

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        """Slow down requests to the host of ``request``."""
        wanted = robotparser.crawl_delay(self._agent)
        if not wanted or self.crawler.settings["MIRROR"]:
            return
        delay = slow_down(self.crawler, request, float(wanted))
        throttle = self.crawler.get_extension(AutoThrottle)
        if throttle is not None:
            throttle.mindelay = max(throttle.mindelay, delay)


def slow_down(crawler: Crawler, request: Request, seconds: float) -> float:
    """Ask the host of ``request`` one thing at a time, at least so many seconds apart; return how many."""
    delay = min(seconds, crawler.settings.getfloat("AUTOTHROTTLE_MAX_DELAY"))
    slot = crawler.engine.downloader.slots.get(urlsplit(request.url).hostname)
    if slot is not None and slot.delay < delay:
        slot.delay, slot.concurrency = delay, 1
    return delay


class MirrorHandler(HTTP11DownloadHandler):
    """Sends requests for the sample hosts to a loopback server, at the last moment before the network.

    `https://energy.sample.example/a?b` is asked from `BASE/energy.sample.example/a?b`; spiders, duplicate
    filter, offsite filter and robots.txt see the canonical URL only. Other hosts are refused.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._base: str = crawler.settings["MIRROR"].rstrip("/")

    async def download_request(self, request: Request) -> Response:
        """Download from the mirror; the response bears the URL that was asked for."""
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
    """Tell whether a URL lies on one of the sample sites."""
    name, _, domain = (urlsplit(url).hostname or "").partition(".")
    return domain == SAMPLE_DOMAIN and (SAMPLE_SITES / name / "routes.json").is_file()


def check_mirrored(urls: tuple[str, ...]) -> None:
    """Raise `InputError` for start URLs that the sample site cannot answer."""
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
    """Return the Scrapy settings that send all requests to the mirror at ``base``."""
    handler = "crawlers.middlewares.MirrorHandler"
    return {"MIRROR": base, "DOWNLOAD_HANDLERS": {"http": handler, "https": handler}}

"""Downloader middlewares: conditional requests, redirects within bounds, back-off."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Self
from urllib.parse import urljoin, urlsplit

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.extensions.throttle import AutoThrottle
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.robotstxt import RobotParser

from rag_assay.crawlers.login import OfCrawler
from rag_assay.crawlers.markup import content_type_of
from rag_assay.crawlers.spiders.base import SiteSpider, is_unreachable, reason_of, sitemaps_in, spider_of
from rag_assay.crawlers.store import Followed
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.iso_dates import retry_after
from rag_assay.warehouse.pages import media_type, read_body

READ_BYTES = 512 * 1024  # RFC 9309, 2.5: a crawler reads 500 KiB at least
MOST_BYTES = 5_000_000


class Unread(NamedTuple):
    """Stands for the rules of a host whose robots.txt could not be read."""

    reason: str


def is_robots(request: Request) -> bool:
    return bool(request.meta.get("dont_obey_robotstxt"))


class RobotsMiddleware(RobotsTxtMiddleware):
    """Obeys robots.txt. Without one (status 4xx), all is allowed. If it answers 429 or 5xx, too late, too
    much or from another host, nothing is, and the pages fail with that reason.
    """

    def process_request_2(self, rp: RobotParser | Unread | None, request: Request) -> None:
        if isinstance(rp, Unread):
            raise IgnoreRequest(rp.reason)
        super().process_request_2(rp, request)

    async def _parse_robots(self, response: Response, netloc: str, request: Request) -> None:
        if response.status == 429 or response.status >= 500:
            self._leave(netloc, Unread(f"robots.txt: status {response.status}"))
            return
        body = response.body if response.status == 200 else b""
        if len(body) > READ_BYTES:
            body = body[:READ_BYTES].rpartition(b"\n")[0]
        if spider := spider_of(self.crawler):
            spider.sitemaps[netloc] = sitemaps_in(body, response.url)
        await super()._parse_robots(response.replace(body=body), netloc, request)

    def _robots_error(self, exc: Exception, netloc: str) -> None:
        if is_unreachable(exc):
            super()._robots_error(exc, netloc)
        else:
            self._leave(netloc, Unread(f"robots.txt: {reason_of(exc, MOST_BYTES)}"))

    def _leave(self, netloc: str, unread: Unread) -> None:
        waiting: Any = self._parsers[netloc]
        self._parsers[netloc] = unread
        waiting.callback(unread)


class CrawlExtension(OfCrawler):
    """Counts the bytes of all bodies, stops useless downloads, and keeps to a longer Crawl-delay."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._agent = crawler.settings["ROBOTSTXT_USER_AGENT"]
        for heard in (self.headers_received, self.bytes_received, self.robots_parsed):
            crawler.signals.connect(heard, getattr(signals, heard.__name__))

    def headers_received(self, headers: Headers, request: Request) -> None:
        """Stop a download at its headers where the body could not be used, as that of an image."""
        spider = spider_of(self.crawler)
        if spider is None or is_robots(request) or request.meta.keys() & {"login", "subrequest"}:
            return
        kind = media_type(content_type_of(headers))
        if kind and not spider.is_readable(kind, request.url):
            raise StopDownload(fail=False)

    def bytes_received(self, data: bytes) -> None:
        if spider := spider_of(self.crawler):
            spider.received_bytes += len(data)

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        wanted = robotparser.crawl_delay(self._agent)
        if not wanted or self.crawler.settings["MIRROR"]:
            return
        delay = slow_down(self.crawler, request, float(wanted))
        throttle = self.crawler.get_extension(AutoThrottle)
        if throttle is not None:
            throttle.mindelay = max(throttle.mindelay, delay)


def slow_down(crawler: Crawler, request: Request, seconds: float) -> float:
    delay = min(seconds, crawler.settings.getfloat("AUTOTHROTTLE_MAX_DELAY"))
    slot = crawler.engine.downloader.slots.get(urlsplit(request.url).hostname)
    if slot is not None and slot.delay < delay:
        slot.delay, slot.concurrency = delay, 1
    return delay


_VALIDATORS = (("If-None-Match", "etag"), ("If-Modified-Since", "last_modified"))
_REDIRECTS = {301, 302, 303, 307, 308}
_FOR_GOOD = {301, 308}


class SeenInThisCrawl(RFPDupeFilter):
    """Drops repeated requests of this crawl; Scrapy's own filter keeps them beyond it in the job folder."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(
            None, crawler.settings.getbool("DUPEFILTER_DEBUG"), fingerprinter=crawler.request_fingerprinter
        )


class RevalidateMiddleware(OfCrawler):
    """Requests stored pages conditionally, and answers 304 from the store."""

    def process_request(self, request: Request) -> Response | None:
        """Ask conditionally; a page that a killed crawl fetched is answered from the store."""
        for header, _ in _VALIDATORS:
            request.headers.pop(header, None)
        spider = spider_of(self.crawler)
        if is_robots(request):
            request.meta["download_maxsize"] = MOST_BYTES
            return None
        if spider is None or spider.store is None or request.meta.get("unconditional"):
            return None
        row = spider.store.fresh(request.url)
        if row and (answer := self._known(request, Headers(), request.url)):
            request.meta["fetched_at"] = row["fetched_at"]
            return answer
        for header, value in self._validators(request.url):
            request.headers[header] = value
        return None

    def process_response(self, request: Request, response: Response) -> Response | Request:
        is_conditional = any(header in request.headers for header, _ in _VALIDATORS)
        if response.status != 304 or not is_conditional:
            return response  # a 304 without a conditional request is a failed page
        known = self._known(request, Headers(response.headers), response.url)
        return known or request.replace(meta={**request.meta, "unconditional": True}, dont_filter=True)

    def _validators(self, url: str) -> list[tuple[str, str]]:
        store = self.crawler.spider.store
        row = store.row(url)
        if row and row["sha256"]:
            stored = row
        else:
            followed = store.followed.get(url)
            stored = followed._asdict() if followed else {}
        return [(header, stored[name]) for header, name in _VALIDATORS if stored.get(name)]

    def _known(self, request: Request, headers: Headers, url: str) -> Response | None:
        page = self._page(request.url)
        if page is None:
            return None
        facts = {"Content-Type": page.content_type, "ETag": page.etag, "Last-Modified": page.last_modified}
        for name, value in facts.items():
            if value:
                headers.setdefault(name, value)
        kind = responsetypes.from_args(headers=headers, url=url, body=page.body)
        return kind(url, 200, headers, page.body, request=request)

    def _page(self, url: str) -> Followed | None:
        store = self.crawler.spider.store
        row = store.row(url)
        if not row or not row["sha256"]:
            return store.followed.get(url)
        try:
            body = read_body(store.home, row["sha256"])
        except CorruptFileError:
            return None
        return Followed(url, row["content_type"], row["etag"], row["last_modified"], body)


class RedirectBoundsMiddleware(OfCrawler):
    """Turns a redirect to where the source does not lead, or in a circle, into a failure with that reason."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._led: dict[str, str] = {}  # each redirect of this crawl

    def process_response(self, request: Request, response: Response) -> Response:
        spider, location = spider_of(self.crawler), response.headers.get("Location")
        if spider is None or location is None or response.status not in _REDIRECTS:
            return response
        target = _target(request, location)
        if why := self._why_not(spider, request, target):
            raise IgnoreRequest(f"redirects to {why}")
        if self._leads_back(request.url, target):
            raise IgnoreRequest("redirects in a circle")
        if response.status in _FOR_GOOD and spider.store:
            spider.store.moved(request.url)
        return response

    def _why_not(self, spider: SiteSpider, request: Request, target: str) -> str | None:
        if not target:
            return "no URL"
        # `allow` and `deny` are about pages
        if is_robots(request) or request.meta.keys() & {"login", "subrequest"}:
            return spider.bounds.foreign(target)
        start = request.meta.get("hops") == 0 or request.meta.get("is_list", False)
        return spider.bounds.why_not(target, start=start)

    def _leads_back(self, url: str, target: str) -> bool:
        self._led[url] = target
        passed = set()
        while target in self._led and target not in passed:
            passed.add(target)
            target = self._led[target]
        return target == url or url in passed


def _target(request: Request, location: bytes) -> str:
    try:
        return Request(urljoin(request.url, location.decode("latin-1"))).url.partition("#")[0]
    except ValueError:
        return ""


class BackOffMiddleware(OfCrawler):
    """Slows down for a host that answers 429 or 503 with Retry-After, until it answers again."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._is_throttled = crawler.settings.getbool("AUTOTHROTTLE_ENABLED")
        self._before: dict[str, tuple[float, float, int]] = {}  # host -> end of the wait, its pace before

    def process_response(self, request: Request, response: Response) -> Response:
        host = urlsplit(request.url).hostname or ""
        slot = self.crawler.engine.downloader.slots.get(host)
        wanted = (response.headers.get("Retry-After") or b"").decode("latin-1").strip()
        if response.status in {429, 503} and (seconds := retry_after(wanted)):
            if slot is not None:
                _end, *pace = self._before.get(host, (0.0, slot.delay, slot.concurrency))
                self._before[host] = (time.monotonic() + seconds, *pace)
            slow_down(self.crawler, request, seconds)
        elif slot is not None and not self._is_throttled and host in self._before:
            end, delay, concurrency = self._before[host]
            if time.monotonic() >= end and response.status < 400:
                del self._before[host]
                slot.delay, slot.concurrency = delay, concurrency
        return response

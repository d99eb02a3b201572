"""Downloader middlewares: conditional requests, redirects within bounds, back-off."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self
from urllib.parse import urljoin

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from rag_assay.crawlers.extensions import slow_down
from rag_assay.crawlers.followed_pages import Followed
from rag_assay.crawlers.robots import MOST_BYTES, is_robots
from rag_assay.crawlers.spiders.base import SiteSpider, spider_of
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.pages import read_body

_VALIDATORS = (("If-None-Match", "etag"), ("If-Modified-Since", "last_modified"))
_REDIRECTS = {301, 302, 303, 307, 308}
_FOR_GOOD = {301, 308}


class SeenInThisCrawl(RFPDupeFilter):
    """Drops what this crawl has asked for already, and keeps nothing of it for the next one.

    Scrapy's own filter keeps it in the job folder (JOBDIR), which a killed crawl leaves without the requests
    that were waiting: nobody would ever ask for them again.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the filter of a crawl."""
        return cls(
            None, crawler.settings.getbool("DUPEFILTER_DEBUG"), fingerprinter=crawler.request_fingerprinter
        )


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
        """Add the validators of the page known under exactly this URL; a redirect brings none along.

        A page that a killed crawl fetched, and this one carries on, is answered from the store.
        """
        for header, _ in _VALIDATORS:
            request.headers.pop(header, None)
        spider = spider_of(self.crawler)
        if is_robots(request):
            request.meta["download_maxsize"] = MOST_BYTES
            return None
        if spider is None or spider.store is None or request.meta.get("unconditional"):
            return None
        if (row := spider.store.fresh(request.url)) and (
            answer := self._known(request, Headers(), request.url)
        ):
            request.meta["fetched_at"] = row["fetched_at"]
            return answer
        for header, value in self._validators(request.url):
            request.headers[header] = value
        return None

    def process_response(self, request: Request, response: Response) -> Response | Request:
        """Turn 304 into the known page; where its file is damaged, ask again without a condition."""
        is_conditional = any(header in request.headers for header, _ in _VALIDATORS)
        if response.status != 304 or not is_conditional:
            return response  # a 304 that nobody asked for is a failed page
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
        """Return the page as it was last answered; None where its file is damaged."""
        page = self._page(request.url)
        if page is None:
            return None
        for name, value in (
            ("Content-Type", page.content_type),
            ("ETag", page.etag),
            ("Last-Modified", page.last_modified),
        ):
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


class RedirectBoundsMiddleware:
    """Turns a redirect to where the source does not lead, or in a circle, into a failure with that reason."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self._led: dict[str, str] = {}  # each redirect of this crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        """Let all pass but a redirect that leaves the source's hosts, or what it allows of them."""
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
        if is_robots(request):  # `allow` and `deny` are about pages
            return spider.bounds.foreign(target)
        start = request.meta.get("hops") == 0 or request.meta.get("is_list", False)
        return spider.bounds.why_not(target, start=start)

    def _leads_back(self, url: str, target: str) -> bool:
        """Return whether the redirects of this crawl lead from ``target`` to ``url``, which leads to it.

        The filter of doubles would drop such a page without a word.
        """
        self._led[url] = target
        passed = set()
        while target in self._led and target not in passed:
            passed.add(target)
            target = self._led[target]
        return target == url or url in passed


def _target(request: Request, location: bytes) -> str:
    """Return the URL that a redirect leads to, as it would be asked for; an empty string where it is none."""
    try:
        return Request(urljoin(request.url, location.decode("latin-1"))).url.partition("#")[0]
    except ValueError:
        return ""


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
        if response.status in {429, 503} and (seconds := seconds_until(wanted)):
            slow_down(self.crawler, request, seconds)
        return response


def seconds_until(retry_after: str) -> float:
    """Return how long a Retry-After header asks to wait, in seconds; 0 where it says nothing of use.

    >>> seconds_until("120"), seconds_until("Fri, 31 Dec 1999 23:59:59 GMT"), seconds_until("soon")
    (120.0, 0.0, 0.0)
    """
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        then = parsedate_to_datetime(retry_after)
        return max(0.0, (then.astimezone(UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0

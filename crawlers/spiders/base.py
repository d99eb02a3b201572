"""What all spiders do alike: ask, follow, decode, and turn whatever goes wrong into a page with a reason."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, Self
from urllib.parse import urldefrag, urljoin, urlsplit

import scrapy
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    CloseSpider,
    DontCloseSpider,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.http import HtmlResponse, Request, Response
from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils._compression import _DecompressionMaxSizeExceeded
from scrapy.utils.gz import gunzip, gzip_magic_number
from twisted.python.failure import Failure

from crawlers.items import Page
from crawlers.markup import listed_urls
from crawlers.store import PageStore
from warehouse.pages import decode, media_type
from warehouse.source import Source

Output = Iterator[Page | Request]

HTML = frozenset({"text/html", "application/xhtml+xml"})
LISTS = frozenset(
    {
        "application/xml", "text/xml", "application/rss+xml", "application/atom+xml", "application/rdf+xml",
        "application/gzip", "application/x-gzip",
    }
)  # fmt: skip
BARREN_PAGES = (
    20  # result pages in a row without a new link, after which their pagination is followed no more
)

_REASONS = (
    (DownloadTimeoutError, "timeout"),
    (CannotResolveHostError, "dns"),
    (DownloadConnectionRefusedError, "connection refused"),
    (DownloadFailedError, "connection lost"),
    (ResponseDataLossError, "connection lost"),
    (ConnectionError, "connection lost"),
)


def clean_url(base: str, href: str) -> str:
    """Return the absolute URL of a link, without its fragment.

    >>> clean_url("https://a.example/x/", " ../y?q=1#top ")
    'https://a.example/y?q=1'
    """
    try:
        return urldefrag(urljoin(base, href.strip())).url
    except ValueError:  # such as http://[broken
        return ""


class SiteSpider(scrapy.Spider):
    """Walks the hosts of its start URLs. A family of sites says in `visit` what of a page is stored.

    Depth is counted in links from a start URL; pagination does not count.
    """

    readable = HTML  # media types that `visit` takes, lists of addresses aside

    def __init__(
        self,
        source: Source | None = None,
        store: PageStore | None = None,
        progress: Callable[[str], None] | None = None,
        start: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source or Source.model_validate(
            {"spider": self.name, "start": [url for url in start.split(",") if url]}
        )
        self.store = store
        self.own_store: PageStore | None = None
        self.progress = progress or self.logger.info
        self.allowed_domains = list(self.source.hosts)
        self._allowed = [re.compile(pattern) for pattern in self.source.allow]
        self._denied = [re.compile(pattern) for pattern in self.source.deny]
        self.broken: Exception | None = None  # why a page could not be stored
        self.too_deep = 0
        self.received_bytes = 0
        self._answered = 0
        self._known: set[str] = set()
        self._hosts: set[str] = set()  # those that answered
        self._looked_back = False

    # -------------------------------------------------------------------------------------- requests

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Make the spider of a crawl."""
        spider: Self = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.look_back, signals.spider_idle)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        """Ask for the start URLs."""
        for url in self.source.start:
            yield self.request(clean_url(url, ""), hops=0)

    def request(self, url: str, hops: int, barren: int = 0, **listed: Any) -> Request:
        """Return a request for ``url``; ``listed`` is what the page that links it says of it."""
        self._known.add(url)
        meta = {"hops": hops, "barren": barren, "listed": listed}
        return Request(url, self.received, errback=self.failed, meta=meta)

    def look_back(self) -> None:
        """Once no link is left, ask for the stored pages that nothing links to any more.

        So a page is known to be gone by its own answer, 404 or 410, and not by a missing link. Pages that the
        source does not want any longer are marked as gone unasked, those of hosts that gave no answer stay.
        """
        if self._looked_back or self.store is None or not self._hosts:
            return
        self._looked_back = True
        asked = 0
        for row in self.store.unseen():
            url = row["url"]
            if self.why_not(url):
                self.store.leave(url)
            elif url not in self._known and urlsplit(url).hostname in self._hosts:
                asked += 1
                self.crawler.engine.crawl(self._again(url, row["requested_url"]))
        if asked:
            raise DontCloseSpider

    def _again(self, url: str, requested_url: str | None) -> Request:
        request = self.request(url, hops=0)
        return request.replace(meta={**request.meta, "again": requested_url}, dont_filter=True)

    def follow(self, response: Response, hrefs: list[str], **listed: Any) -> Output:
        """Ask for the pages that ``response`` links to, on the source's own hosts, one link deeper.

        A link whose name says that it is no text (`/chart.png`) is not asked for: it is a failed page.
        """
        if "again" in response.meta:  # nothing leads to it any more, so it leads nowhere
            return
        hops = response.meta["hops"] + 1
        new = (href for href in hrefs if href not in self._known)
        for url in dict.fromkeys(clean_url(response.url, href) for href in new):
            if url in self._known or not self.is_own(url):
                continue
            kind = self._unreadable_name(url)
            if kind:
                self._known.add(url)
                yield Page(url, url, content_type=kind, reason=f"not text: {kind}")
            elif hops > self.source.limits.depth:
                self.too_deep += 1
            else:
                yield self.request(url, hops, **listed)

    def turn(self, response: Response, hrefs: list[str], *, fruitful: bool) -> Output:
        """Ask for the next of a row of result pages, unless the row has long brought nothing new."""
        if "again" in response.meta:
            return
        barren = 0 if fruitful else response.meta["barren"] + 1
        for url in dict.fromkeys(clean_url(response.url, href) for href in hrefs):
            if url in self._known or not self.is_own(url):
                continue
            if barren >= BARREN_PAGES:
                self.logger.warning("%s: %d pages without a new link, its row is left here", url, barren)
            else:
                yield self.request(url, response.meta["hops"], barren)

    def is_own(self, url: str) -> bool:
        """Tell whether a URL lies on a host of the source, or below one, and is one that it allows."""
        return self.why_not(url) is None

    def why_not(self, url: str, *, start: bool = False) -> str | None:
        """Say why a URL is not followed; None where it is. A start URL need not match `allow`."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return "no URL"
        host = parts.hostname or ""
        if parts.scheme not in {"http", "https"} or not any(
            host == domain or host.endswith(f".{domain}") for domain in self.allowed_domains
        ):
            return f"another host: {host}"
        if any(pattern.search(url) for pattern in self._denied):
            return "what `deny` forbids"
        if self._allowed and not start and not any(pattern.search(url) for pattern in self._allowed):
            return "what `allow` does not name"
        return None

    def is_readable(self, kind: str) -> bool:
        """Tell whether this spider has use for a media type."""
        return kind in self.readable or kind in LISTS or kind.startswith("text/")

    def stored(self, url: str) -> dict[str, Any] | None:
        """Return the manifest row of a URL, or None."""
        return self.store.row(url) if self.store else None

    def _unreadable_name(self, url: str) -> str | None:
        suffix = PurePosixPath(urlsplit(url).path).suffix.lower()
        if suffix.removeprefix(".") not in IGNORED_EXTENSIONS:
            return None
        kind = mimetypes.guess_type(f"x{suffix}")[0] or "application/octet-stream"
        return None if self.is_readable(kind) else kind

    # -------------------------------------------------------------------------------------- responses

    def visit(self, response: HtmlResponse) -> Output:
        """Yield what a page is worth: itself, as a page, and requests for what it links to."""
        raise NotImplementedError

    def received(self, response: Response) -> Output:
        """Take an answer; whatever goes wrong in reading it is a failed page, never a gap."""
        self._check_limit()
        self._hosts.add(urlsplit(response.url).hostname or "")
        try:
            yield from self._read(response)
        except CloseSpider:
            raise
        except _DecompressionMaxSizeExceeded:
            yield self.failure(response, self._too_large("when unpacked"))
        except Exception as error:
            self.logger.exception("%s cannot be read", response.url)
            yield self.failure(response, f"cannot be read: {type(error).__name__}")

    def _read(self, response: Response) -> Output:
        content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
        kind = media_type(content_type) or ("text/html" if isinstance(response, HtmlResponse) else "")
        if not self.is_readable(kind):
            yield self.failure(response, f"not text: {kind or 'unknown'}")
        elif response.status != 200:
            yield self.failure(response, f"status {response.status}")
        elif not response.body:
            yield self.failure(response, "empty answer")
        elif kind in LISTS:
            yield from self._read_list(response, content_type)
        elif kind in HTML:
            encoding = decode(response.body, content_type)[1]
            yield from self.visit(HtmlResponse(**_parts(response), encoding=encoding))
        elif kind in self.readable:
            yield from self.visit_file(response, kind)
        else:  # text, but nothing that a page could be: plain text, a calendar, a script
            self.settle(response)

    def visit_file(self, response: Response, kind: str) -> Output:
        """Yield the page of a file that is no HTML."""
        yield self.page(response, {})

    def _read_list(self, response: Response, content_type: str) -> Output:
        body = response.body
        if gzip_magic_number(response):
            body = gunzip(body, max_size=self.source.limits.page_bytes)
        text, encoding = decode(body, content_type)
        urls = listed_urls(text)
        if urls is not None:
            self.settle(response)
            yield from self.follow(response, urls)
        elif "<html" in text[:1000].lower():  # XHTML that is served as XML
            yield from self.visit(HtmlResponse(**_parts(response), encoding=encoding))
        else:
            yield self.failure(response, "neither a page nor a list of pages")

    def failed(self, failure: Failure) -> Output:
        """Turn a request that brought no page into a failed page."""
        self._check_limit()
        yield from self.missed(failure.request, failure, self._reason(failure.value))

    def missed(self, request: Request, failure: Failure, reason: str) -> Output:
        """Yield the failed page of a request, and what may be tried in its stead."""
        response = getattr(failure.value, "response", None)
        if isinstance(response, Response):
            self._hosts.add(urlsplit(response.url).hostname or "")
            again = request.meta.get("again")
            if again and again != response.url and again not in self._known and self.is_own(again):
                yield self._again(again, None)  # a page that names another URL as its canonical one
            if "again" not in request.meta or self.stored(response.url):
                yield self.failure(response, reason)
        else:
            asked = (request.meta.get("redirect_urls") or [request.url])[0]
            yield Page(request.url, asked, reason=reason)

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, HttpError):
            return f"status {error.response.status}"
        if isinstance(error, IgnoreRequest):
            return self._refusal(str(error))
        if isinstance(error, DownloadCancelledError):
            return self._too_large()
        known = (reason for kind, reason in _REASONS if isinstance(error, kind))
        return next(known, f"error: {type(error).__name__}")

    def _refusal(self, message: str) -> str:
        if "DOWNLOAD_MAXSIZE" in message:
            return self._too_large("when unpacked")
        return {
            "Forbidden by robots.txt": "robots.txt forbids it",
            "max redirections reached": "too many redirects",
        }.get(message, message)

    def _too_large(self, when: str = "") -> str:
        return f"larger than {self.source.limits.page_bytes} bytes {when}".strip()

    def _check_limit(self) -> None:
        if self.broken:
            raise CloseSpider("broken")
        if self.received_bytes >= self.source.limits.bytes:
            raise CloseSpider(f"limit: {self.source.limits.bytes} bytes")
        if self._answered >= self.source.limits.pages:
            raise CloseSpider(f"limit: {self.source.limits.pages} pages")

    # -------------------------------------------------------------------------------------- pages

    def page(self, response: Response, fields: dict[str, Any], canonical: str | None = None) -> Page:
        """Return the page of a response, under its canonical URL if that lies on the same host."""
        self._answered += 1
        url = self._canonical(response.url, canonical) or response.url
        return Page(body=response.body, fields=fields, alias=url != response.url, **_facts(response, url))

    def failure(self, response: Response, reason: str) -> Page:
        """Return the failed page of a response that has nothing to store."""
        self._answered += 1
        return Page(reason=reason, **_facts(response, response.url))

    def settle(self, response: Response) -> None:
        """Note that a URL answered and holds nothing to store."""
        if self.store:
            self.store.settle(response.url)

    def _canonical(self, url: str, canonical: str | None) -> str | None:
        """Return the canonical URL; a site that names its home page on every page is not believed."""
        target = clean_url(url, canonical or "")
        here, there = urlsplit(url), urlsplit(target)
        same_page = (here.hostname, here.path, here.query) == (there.hostname, there.path, there.query)
        if here.hostname != there.hostname or same_page or (there.path in {"", "/"} and not there.query):
            return None
        return target


def _parts(response: Response) -> dict[str, Any]:
    return {
        "url": response.url,
        "status": response.status,
        "headers": response.headers,
        "body": response.body,
        "request": response.request,
    }


def _facts(response: Response, url: str) -> dict[str, Any]:
    def header(name: str) -> str | None:
        value = response.headers.get(name)
        return value.decode("latin-1") if value else None

    asked = (response.meta.get("redirect_urls") or [response.url])[0]
    known = response.meta.get("fetched_at")  # of a page that was answered from the store
    return {
        **({"fetched_at": known} if known else {}),
        "url": url,
        "requested_url": urldefrag(asked).url,
        "status": response.status,
        "content_type": header("Content-Type"),
        "etag": header("ETag"),
        "last_modified": header("Last-Modified"),
    }

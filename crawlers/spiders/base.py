"""The base of all spiders: requests, following links, decoding, failed pages with reasons."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, ClassVar, Self, get_origin
from urllib.parse import urldefrag, urlsplit

import scrapy
import yaml
from pydantic import ValidationError
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.retry import get_retry_request
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
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils._compression import _DecompressionMaxSizeExceeded
from scrapy.utils.gz import gunzip, gzip_magic_number
from twisted.python.failure import Failure

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.links import (
    Bounds,
    ListedAddress,
    base_of,
    clean_url,
    kind_by_name,
    listed_in,
    listed_lines,
    looks_listed,
)
from rag_assay.crawlers.login import Credentials, sign_in
from rag_assay.crawlers.markup import content_type_of, is_scripts_only
from rag_assay.crawlers.settings import source_settings
from rag_assay.crawlers.store import Followed, PageStore
from rag_assay.crawlers.traps import Footprint, footprint, is_like, pattern_of
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.pages import decode, media_type
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.source import Source

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
    """Return whether a body stops before its compression (gzip, x-gzip, deflate, br or zstd) ends. A wrong
    checksum, or anything after the end, is tolerated: servers get these wrong.

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


_FEEDS = (
    "//link[contains(concat(' ', @rel, ' '), ' alternate ')]"
    "[contains(@type, 'rss+xml') or contains(@type, 'atom+xml')]/@href"
    " | //link[contains(concat(' ', @rel, ' '), ' sitemap ')]/@href"
)
MOST_SITEMAPS = 50  # of one robots.txt


def feeds_of(response: HtmlResponse) -> list[str]:
    base = base_of(response)
    return [clean_url(base, href) for href in response.xpath(_FEEDS).getall()]


def sitemaps_in(robots: bytes, url: str) -> list[str]:
    """Return the addresses of the `Sitemap:` lines of a robots.txt; they hold for all agents.

    >>> sitemaps_in(b"User-agent: *\\nDisallow:\\nsitemap : /map.xml # all\\n", "https://a.example/robots.txt")
    ['https://a.example/map.xml']
    """
    found = []
    for line in robots.decode("utf-8", "replace").removeprefix("\ufeff").splitlines():
        name, _, value = line.partition("#")[0].partition(":")
        if name.strip().lower() == "sitemap" and (address := clean_url(url, value)):
            found.append(address)
    return list(dict.fromkeys(found))[:MOST_SITEMAPS]


def folder_of(url: str) -> str:
    """Return the folder that a page lies in: what a list that was only discovered may lead to.

    >>> folder_of("https://a.example/docs/start?x=1"), folder_of("https://a.example")
    ('https://a.example/docs/', 'https://a.example/')
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rpartition('/')[0]}/"


def within(url: str, folders: Iterable[str] | None) -> bool:
    if folders is None:
        return True
    bare = url.partition("://")[2]
    return any(bare.startswith(folder.partition("://")[2]) for folder in folders)


def facts_of(response: Response, url: str) -> dict[str, Any]:
    def header(name: str) -> str | None:
        value = response.headers.get(name)
        return value.decode("latin-1") if value else None

    requested_url = (response.meta.get("redirect_urls") or [response.url])[0]
    known = response.meta.get("fetched_at")  # of a page that was answered from the store
    return {
        **({"fetched_at": known} if known else {}),
        "url": url,
        "requested_url": urldefrag(requested_url).url,
        "status": response.status,
        "content_type": header("Content-Type"),
        "etag": header("ETag"),
        "last_modified": header("Last-Modified"),
    }


_BY_COMMA = {"start", "domains"}  # the other lists may hold commas: regular expressions
_ELSEWHERE = {
    "allow_private": "Give it as `-s ALLOW_PRIVATE=1`.",
    "mirror": "Only `python -m crawlers` and `assay` serve the sample site.",
    "spider": "It is named by the command itself.",
}


def source_of(spider: str, arguments: dict[str, str]) -> Source:
    """Return the source that the arguments of a command line describe: `start` and `domains`
    comma-separated, other values as YAML, as in `-a 'limits={pages: 50}'`.

    >>> source_of("news", {"start": "https://a.example/,https://b.example/", "deny": "/video/"}).deny
    ('/video/',)
    """
    values = {name: _value(name, text) for name, text in arguments.items()}
    try:
        return Source.model_validate({**values, "spider": spider})
    except ValidationError as error:
        lines = (f"-a {'.'.join(map(str, one['loc'])) or 'start'}: {one['msg']}" for one in error.errors())
        raise InputError(f"scrapy crawl {spider}:", *lines) from None


def _value(name: str, text: str) -> Any:
    if name in _ELSEWHERE:
        raise InputError(f"-a {name}: {_ELSEWHERE[name]}")
    if name in _BY_COMMA:
        return [part.strip() for part in text.split(",") if part.strip()]
    is_list = name in Source.model_fields and get_origin(Source.model_fields[name].annotation) is tuple
    if is_list and not text.startswith("["):
        return [text]
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"-a {name}: {text!r} cannot be read ({error}).") from error


_REASONS = (
    (DownloadTimeoutError, "timeout"),
    (CannotResolveHostError, "host not found"),
    (DownloadConnectionRefusedError, "connection refused"),
    (DownloadFailedError, "connection lost"),
    (ResponseDataLossError, "connection lost"),
    (ConnectionError, "connection lost"),
)
_REFUSALS = {
    "Forbidden by robots.txt": "robots.txt forbids it",
    "max redirections reached": "too many redirects",
}


def reason_of(error: BaseException, page_bytes: int) -> str:
    if isinstance(error, HttpError):
        return f"status {error.response.status}"
    if isinstance(error, IgnoreRequest):
        message = str(error)
        is_large = "DOWNLOAD_MAXSIZE" in message
        return too_large(page_bytes, unpacked=True) if is_large else _REFUSALS.get(message, message)
    if isinstance(error, DownloadCancelledError):
        return too_large(page_bytes)
    known = (reason for kind, reason in _REASONS if isinstance(error, kind))
    return next(known, f"error: {type(error).__name__}")


def too_large(page_bytes: int, *, unpacked: bool = False) -> str:
    return f"larger than {page_bytes} bytes{' when unpacked' if unpacked else ''}"


def is_unreachable(error: BaseException) -> bool:
    refused = isinstance(error, IgnoreRequest) and str(error).startswith("not a public address")
    return refused or isinstance(error, CannotResolveHostError | DownloadConnectionRefusedError)


Output = Iterator[Page | Request]

HTML = frozenset({"text/html", "application/xhtml+xml"})
PACKED = frozenset({"application/gzip", "application/x-gzip"})
LISTS = PACKED | {
    "application/xml", "text/xml", "application/rss+xml", "application/atom+xml", "application/rdf+xml"
}  # fmt: skip
BARREN_PAGES = 20  # result pages in a row without a new link, after which their row is followed no more
# Pages that are followed only are bounded too: a calendar without end has nothing else to stop it.
FOLLOWED_A_PAGE = 10
FOLLOWED_AT_LEAST = 1000

# The newest first, across all lists: lists come before pages with a date, these by month, others by depth.
_LIST_PRIORITY = 1_000_000


class SiteSpider(scrapy.Spider):
    """Walks the hosts of its start URLs; a family of sites says in `visit` what of a page is stored."""

    name: str  # the spider's, as a source says it
    code_version: ClassVar[str] = "1"
    package: ClassVar[str | None] = None  # the other package that it is of, with its version
    Options: ClassVar[type[Strict]] = Strict  # parameters of its own, which a source says as `options`
    readable = HTML  # media types that `visit` takes, lists of addresses aside

    def __init__(
        self,
        source: Source | None = None,
        store: PageStore | None = None,
        progress: Callable[[str], None] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__()
        self.source = source or source_of(self.name, arguments)
        self.options = self.Options.model_validate(self.source.options)
        self.store = store
        self.store_to_close: PageStore | None = None
        self.progress = progress or self.logger.info
        self.allowed_domains = list(self.source.hosts)
        self.bounds = Bounds(self.source)
        self.credentials = Credentials(self.source)
        self.broken: Exception | None = None  # why a page could not be stored
        self.too_deep = 0
        self.received_bytes = 0
        self.missed_start: dict[str, str] = {}  # start URL -> why it brought nothing
        self._answered = 0  # pages that were stored or failed
        self.followed = 0  # pages that held nothing to store
        self.sitemaps: dict[str, list[str]] = {}  # of robots.txt, by host and port
        self._known: set[str] = set()
        self._hosts: set[str] = set()  # those that answered
        self._looked_back = False

    # -------------------------------------------------------------------------------------- requests

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider: Self = super().from_crawler(crawler, *args, **kwargs)
        if "source" not in kwargs:
            crawler.settings.setdict(source_settings(spider.source), priority="spider")
        crawler.signals.connect(spider.look_back, signals.spider_idle)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        if self.broken:
            return
        self._leave_unwanted()
        if self.source.login is not None and self.source.login.form is not None:
            try:
                await sign_in(self.crawler, self.source.login.form.url, self.credentials)
            except AssayError as error:
                self.broken = error
                return
        for url in self.source.start:
            request = self.request(clean_url(url, ""), hops=0)
            yield request.replace(meta={**request.meta, "start": url})

    def request(self, url: str, hops: int, barren: int = 0, priority: int = 0, **listed: Any) -> Request:
        meta = {"hops": hops, "barren": barren, "listed": listed}
        request = Request(url, self.received, errback=self.failed, meta=meta, priority=priority)
        self._known |= {url, request.url}  # as it is written, and as it is sent
        return request

    def look_back(self) -> None:
        """Once no link is left, request stored pages that lack links; only 404 or 410 mean gone."""
        if self._looked_back or self.store is None or not self._hosts:
            return
        self._looked_back = True
        n_requests = 0
        for row in self.store.unseen():
            url = row["url"]
            if url not in self._known and urlsplit(url).hostname in self._hosts:
                n_requests += 1
                self.crawler.engine.crawl(self._again(url, row["requested_url"]))
        if n_requests:
            raise DontCloseSpider

    def _leave_unwanted(self) -> None:
        if self.store is None:
            return
        for row in self.store.unseen():
            if self.bounds.why_not(row["url"], start=row["requested_url"] in self.source.start):
                self.store.leave(row["url"])

    def _again(self, url: str, requested_url: str | None) -> Request:
        request = self.request(url, hops=0)
        return request.replace(meta={**request.meta, "again": requested_url}, dont_filter=True)

    def follow(self, response: Response, urls: list[str], **listed: Any) -> Output:
        """Request the pages that ``response`` links to, on the source's own hosts, one link deeper."""
        if self.source.sitemap_only:
            return
        yield from self._follow(
            response,
            (ListedAddress(clean_url(response.url, url)) for url in urls if url not in self._known),
            **listed,
        )

    def _follow(self, response: Response, links: Iterable[ListedAddress], **listed: Any) -> Output:
        if "again" in response.meta:  # nothing leads to it any more, so it leads nowhere
            return
        folders = response.meta.get("folders")
        for link in links:
            if link.url in self._known or not self._leads_on(link, folders):
                continue
            hops = response.meta["hops"] + (not link.is_list)
            if kind := kind_by_name(link.url, self.is_readable):
                self._known.add(link.url)
                yield Page(link.url, link.url, content_type=kind, reason=f"not text: {kind}")
            elif hops > self.source.limits.depth:
                self.too_deep += 1
            elif link.is_list:
                yield from self._list(link.url, hops, folders)
            else:
                yield from self._requests(link.url, hops, priority=_priority(link), **listed)

    def _leads_on(self, link: ListedAddress, folders: list[str] | None = None) -> bool:
        if self.bounds.why_not(link.url, start=link.is_list):
            return False
        return link.is_list or within(link.url, folders)

    def _list(self, url: str, hops: int, folders: list[str] | None = None) -> Iterator[Request]:
        for request in self._requests(url, hops, priority=_LIST_PRIORITY):
            yield request.replace(meta={**request.meta, "is_list": True, "folders": folders})

    def discover(self, response: HtmlResponse) -> Output:
        """Request the lists of a start page and its robots.txt; they lead into the folders of `start`."""
        if response.meta["hops"] or "again" in response.meta or self.source.limits.depth < 1:
            return
        folders = [folder_of(url) for url in (*self.source.start, response.url)]
        lists = [*self.sitemaps.get(urlsplit(response.url).netloc, ()), *feeds_of(response)]
        if self.source.sitemap_only and not lists:
            lists = [clean_url(response.url, "/sitemap.xml")]
        for url in lists:
            if url not in self._known and self._leads_on(ListedAddress(url, is_list=True)):
                yield from self._list(url, 0, folders)

    def _requests(self, url: str, hops: int, barren: int = 0, **listed: Any) -> Iterator[Request]:
        try:
            yield self.request(url, hops, barren, **listed)
        except ValueError as error:  # one bad link must not cost its page
            self.logger.debug("%s is not a URL: %s", url, error)

    def turn(self, response: Response, hrefs: list[str], *, fruitful: bool) -> Output:
        if "again" in response.meta or self.source.sitemap_only:
            return
        barren = 0 if fruitful else response.meta["barren"] + 1
        for url in dict.fromkeys(clean_url(response.url, href) for href in hrefs):
            if url in self._known or not self.is_on_site(url):
                continue
            if barren >= BARREN_PAGES:
                self.logger.warning("%s: %d pages without a new link, its row is left here", url, barren)
            else:
                yield from self._requests(url, response.meta["hops"], barren)

    def is_on_site(self, url: str) -> bool:
        return self.bounds.why_not(url) is None

    def is_readable(self, kind: str, url: str = "") -> bool:
        if kind == "application/octet-stream" and urlsplit(url).path.endswith(".gz"):
            return True
        return kind in self.readable or kind in LISTS or kind.startswith("text/")

    def stored(self, url: str) -> dict[str, Any] | None:
        return self.store.row(url) if self.store else None

    # -------------------------------------------------------------------------------------- responses

    def visit(self, response: HtmlResponse) -> Output:
        """Yield what a page is worth: itself, as a page, and requests for what it links to."""
        raise NotImplementedError

    def received(self, response: Response) -> Output:
        self._check_limit()
        self._hosts.add(urlsplit(response.url).hostname or "")
        try:
            yield from self._read(response)
        except CloseSpider:
            raise
        except _DecompressionMaxSizeExceeded:
            yield self.failure(response, too_large(self.source.limits.page_bytes, unpacked=True))
        except Exception as error:
            self.logger.exception("%s cannot be read", response.url)
            yield self.failure(response, f"cannot be read: {type(error).__name__}")

    def _read(self, response: Response) -> Output:
        content_type = content_type_of(response.headers)
        kind = media_type(content_type) or ("text/html" if isinstance(response, HtmlResponse) else "")
        if not self.is_readable(kind, response.url):
            yield self.failure(response, f"not text: {kind or 'unknown'}")
        elif response.status != 200:
            yield self.failure(response, f"status {response.status}")
        elif not response.body:
            yield self.failure(response, "empty answer")
        elif kind in LISTS or looks_listed(response.body) or self._is_packed(response):
            yield from self._read_list(response, content_type)
        elif response.meta.get("is_list") and kind in HTML:
            yield self.failure(response, "no list of pages")
        elif kind in HTML:
            encoding = decode(response.body, content_type)[1]
            yield from self._visit(response.replace(cls=HtmlResponse, encoding=encoding))
        elif kind in self.readable and not response.meta.get("is_list"):
            yield from self.visit_file(response, kind)
        else:  # text, but nothing that a page could be: a sitemap of lines, a calendar, a script
            self.settle(response)
            lines = listed_lines(decode(response.body, content_type)[0])
            yield from self._follow(response, map(ListedAddress, lines))

    def _visit(self, response: HtmlResponse) -> Output:
        if is_scripts_only(response.selector, ran=bool(response.meta.get("rendered"))):
            why = response.meta.get("unrendered") or "`render: auto` runs them in a browser"
            yield self.failure(response, f"scripts only: {why}")
            yield from self.discover(response)
            return
        here = pattern_of(response.url)
        before: Footprint | None = response.meta.get("footprint")
        own = None if before is None else footprint(response.selector, response.url)
        outputs = self.visit(response)
        if before is not None and own is not None and is_like(own, before):
            whole = list(outputs)
            if self._leads_nowhere(whole, here):
                self._answered -= 1
                yield self.failure(response, f"trap: it differs from {before.url} in numbers and dates only")
                return
            outputs = iter(whole)
        for output in outputs:
            if isinstance(output, Page) and output.body is not None and response.meta.get("rendered"):
                output.fields["rendered"] = True
            if isinstance(output, Request) and pattern_of(output.url) == here:
                own = own or footprint(response.selector, response.url)
                output.meta["footprint"] = own
            yield output

    def _leads_nowhere(self, outputs: list[Page | Request], pattern: str) -> bool:
        onward = [one.url for one in outputs if isinstance(one, Request)]
        is_stored = any(isinstance(one, Page) and one.body is not None for one in outputs)
        return is_stored and all(pattern_of(url) == pattern for url in onward)

    def _is_packed(self, response: Response) -> bool:
        return gzip_magic_number(response) and urlsplit(response.url).path.endswith(".gz")

    def visit_file(self, response: Response, kind: str) -> Output:
        yield self.page(response, {})

    def _read_list(self, response: Response, content_type: str) -> Output:
        body = response.body
        if gzip_magic_number(response):
            body = gunzip(body, max_size=self.source.limits.page_bytes)
            if ends_early(response.body, "gzip"):  # what it lists so far is asked for all the same
                yield self.failure(response, TRUNCATED)
        text, encoding = decode(body, content_type)
        links = listed_in(text)
        if links is not None:
            self.settle(response)
            whole = [one._replace(url=clean_url(response.url, one.url)) for one in links]
            yield from self._follow(response, whole)
        elif "<html" in text[:1000].lower():  # XHTML that is served as XML
            yield from self._visit(response.replace(cls=HtmlResponse, encoding=encoding))
        else:
            yield self.failure(response, "neither a page nor a list of pages")

    def failed(self, failure: Failure) -> Output:
        self._check_limit()
        reason = reason_of(failure.value, self.source.limits.page_bytes)
        self._note_start(failure.request, reason)
        yield from self.missed(failure.request, failure, reason)

    def _note_start(self, of: Request | Response, reason: str) -> None:
        if start := of.meta.get("start"):
            self.missed_start[start] = reason

    def missed(self, request: Request, failure: Failure, reason: str) -> Output:
        response = getattr(failure.value, "response", None)
        if isinstance(response, Response):
            self._hosts.add(urlsplit(response.url).hostname or "")
            url = request.meta.get("again")
            if url and url != response.url and url not in self._known and self.is_on_site(url):
                yield self._again(url, None)  # a page that names another URL as its canonical one
            if "again" not in request.meta or self.stored(response.url):
                yield self.failure(response, reason)
        else:
            requested_url = (request.meta.get("redirect_urls") or [request.url])[0]
            yield Page(request.url, requested_url, reason=reason)

    def _check_limit(self) -> None:
        if self.broken:
            raise CloseSpider("broken")
        if self.received_bytes >= self.source.limits.bytes:
            raise CloseSpider(f"limit: {self.source.limits.bytes} bytes")
        if self._answered >= self.source.limits.pages:
            raise CloseSpider(f"limit: {self.source.limits.pages} pages")
        followed = max(FOLLOWED_AT_LEAST, FOLLOWED_A_PAGE * self.source.limits.pages)
        if self.followed >= followed:
            raise CloseSpider(f"limit: {followed} pages that hold nothing to store")

    # -------------------------------------------------------------------------------------- pages

    def page(self, response: Response, fields: dict[str, Any], canonical: str | None = None) -> Page:
        self._answered += 1
        url = self._canonical(response.url, canonical) or response.url
        facts = facts_of(response, url)
        alias = url != response.url
        if alias:  # the validators are those of the URL that was asked for, and of no use under the other one
            self._keep(response)
            facts |= {"etag": None, "last_modified": None}
        return Page(body=response.body, fields=fields, alias=alias, **facts)

    def failure(self, response: Response, reason: str) -> Page:
        self._answered += 1
        self._note_start(response, reason)
        return Page(reason=reason, **facts_of(response, response.url))

    def settle(self, response: Response) -> None:
        self.followed += 1
        if self.store:
            self.store.settle(response.url)
            self._keep(response)

    def _keep(self, response: Response) -> None:
        if self.store:
            facts = facts_of(response, response.url)
            names = ("url", "content_type", "etag", "last_modified")
            self.store.followed.keep(Followed(**{name: facts[name] for name in names}, body=response.body))

    def _canonical(self, url: str, canonical: str | None) -> str | None:
        target = clean_url(url, canonical or "")
        here, there = urlsplit(url), urlsplit(target)
        same_page = (here.hostname, here.path, here.query) == (there.hostname, there.path, there.query)
        if here.hostname != there.hostname or same_page or (there.path in {"", "/"} and not there.query):
            return None
        return target


def is_html(response: Response) -> bool:
    kind = media_type(content_type_of(response.headers))
    return kind in HTML or (not kind and isinstance(response, HtmlResponse))


def spider_of(crawler: Crawler) -> SiteSpider | None:
    return crawler.spider if isinstance(crawler.spider, SiteSpider) else None


def _priority(link: ListedAddress) -> int:
    return link.date.year * 12 + link.date.month if link.date else 0

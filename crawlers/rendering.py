"""Renders pages of scripts in Chromium; Scrapy's downloader answers its requests, with all of its rules."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import OrderedDict
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

from scrapy import Request, Selector, signals
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response

from rag_assay.crawlers.login import OfCrawler
from rag_assay.crawlers.markup import content_type_of, is_scripts_only
from rag_assay.crawlers.spiders.base import SiteSpider, is_html, spider_of
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.pages import decode

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 20.0  # per page, with the downloads for its scripts
QUIET = 0.5  # seconds without a request after which a page is ready
REQUESTS = 200  # of one page
KEPT_BYTES = 30_000_000  # of scripts that pages share
_WANTED = frozenset({"document", "script", "xhr", "fetch"})  # no pictures, fonts and styles
_ARGUMENTS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND"),
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
# Nothing listens there, so requests that bypass the downloader fail, also those to loopback.
_PROXY = {"server": "http://127.0.0.1:9", "bypass": "<-loopback>"}


class _RenderError(Exception):
    """A page could not be rendered; says why."""


class _Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes


def why_none() -> str | None:
    if find_spec("playwright") is None:
        return "rendering needs the extra `render` of rag-assay, or `pip install playwright`"
    if not any(map(shutil.which, BROWSERS)):
        return "rendering needs Chromium: install it, as in `apt install chromium`"
    return None


class RenderMiddleware(OfCrawler):
    """Replaces a page that holds nothing but scripts by what they make of it; with `always`, every page."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._browser = _Browser(crawler)
        crawler.signals.connect(self._browser.close, signals.spider_closed)
        crawler.signals.connect(self._begin, signals.spider_opened)

    def _begin(self) -> None:
        spider = spider_of(self.crawler)
        if spider is not None and spider.source.render == "always" and (why := why_none()):
            spider.broken = InputError(f"render: {why}.")

    async def process_response(self, request: Request, response: Response) -> Response:
        spider = spider_of(self.crawler)
        if spider is None or not self._is_wanted(spider, request, response):
            return response
        if why := why_none():
            request.meta["unrendered"] = why
            return response
        try:
            html = await self._browser.rendered(spider, response)
        except _RenderError as error:
            request.meta["unrendered"] = str(error)
            return response
        headers = response.headers.copy()
        for name in ("ETag", "Last-Modified", "Content-Encoding"):
            headers.pop(name, None)  # these describe the page before its scripts ran
        headers["Content-Type"] = "text/html; charset=utf-8"
        request.meta["unrendered"] = "and nothing else after they have run"
        request.meta["rendered"] = True
        body = html.encode("utf-8", "replace")
        return HtmlResponse(response.url, response.status, headers, body, request=request, encoding="utf-8")

    def _is_wanted(self, spider: SiteSpider, request: Request, response: Response) -> bool:
        meta = request.meta
        if meta.get("subrequest") or meta.get("login") or meta.get("fetched_at") or meta.get("is_list"):
            return False
        if spider.source.render == "never" or response.status != 200 or not is_html(response):
            return False
        if spider.source.render == "always":
            return True
        text = decode(response.body, content_type_of(response.headers))[0]
        return bool(text.strip()) and is_scripts_only(Selector(text=text))


class _Browser:
    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._playwright: Any = None
        self._chromium: Any = None
        self._turn: asyncio.Lock | None = None
        self._kept: OrderedDict[str, _Answer] = OrderedDict()

    async def rendered(self, spider: SiteSpider, response: Response) -> str:
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:  # a page at a time
            try:
                return await asyncio.wait_for(self._render(spider, response), SECONDS)
            except TimeoutError as error:
                await self.close()  # a script that never ends holds its process
                raise _RenderError(f"rendering takes longer than {SECONDS:g} seconds") from error
            except _RenderError:
                raise
            except Exception as error:
                await self.close()
                words = str(error).partition("\n")[0][:200]
                raise _RenderError(f"the browser failed ({type(error).__name__}: {words})") from error

    async def _start(self) -> Any:
        from playwright.async_api import async_playwright

        if self._chromium is None:
            self._playwright = await async_playwright().start()
            is_root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox refuses root
            self._chromium = await self._playwright.chromium.launch(
                executable_path=next(filter(None, map(shutil.which, BROWSERS))),
                args=[*_ARGUMENTS, *(["--no-sandbox"] if is_root else [])],
                proxy=_PROXY,
                handle_sigint=False,
                handle_sigterm=False,
            )
        return self._chromium

    async def close(self) -> None:
        chromium, playwright = self._chromium, self._playwright
        self._chromium = self._playwright = None
        for one, end in ((chromium, "close"), (playwright, "stop")):
            if one is not None:
                with suppress(Exception):
                    await asyncio.wait_for(getattr(one, end)(), 5)

    async def _render(self, spider: SiteSpider, response: Response) -> str:
        chromium = await self._start()
        agent = self._crawler.settings["USER_AGENT"]
        context = await chromium.new_context(
            user_agent=agent, service_workers="block", accept_downloads=False, bypass_csp=False
        )
        try:
            visit = _Visit(self._crawler, spider, response, self._kept)
            await context.route("**/*", visit.answer)
            await context.route_web_socket("**/*", _refuse)
            page = await context.new_page()
            await page.goto(response.url, wait_until="domcontentloaded")
            await visit.quiet()
            length = await page.evaluate("document.documentElement.outerHTML.length")
            if length > spider.source.limits.page_bytes:
                raise _RenderError(f"larger than {spider.source.limits.page_bytes} bytes when rendered")
            return str(await page.content())
        finally:
            with suppress(Exception):
                await context.close()


async def _refuse(socket: Any) -> None:
    await socket.close()


class _Visit:
    def __init__(
        self, crawler: Crawler, spider: SiteSpider, response: Response, kept: OrderedDict[str, _Answer]
    ) -> None:
        self._crawler, self._spider, self._response, self._kept = crawler, spider, response, kept
        self._under_way = 0
        self._requests = 0
        self._last = asyncio.get_running_loop().time()

    async def quiet(self) -> None:
        loop = asyncio.get_running_loop()
        while self._under_way or loop.time() - self._last < QUIET:
            await asyncio.sleep(QUIET / 5)

    async def answer(self, route: Any) -> None:
        request = route.request
        self._under_way += 1
        try:
            found = await self._answer(request)
            if found is None:
                await route.abort("blockedbyclient")
            else:
                headers = {"Content-Type": found.content_type} if found.content_type else {}
                await route.fulfill(status=found.status, headers=headers, body=found.body)
        except Exception:  # the page has been closed, or the reply cannot be sent
            with suppress(Exception):
                await route.abort()
        finally:
            self._under_way -= 1
            self._last = asyncio.get_running_loop().time()

    async def _answer(self, request: Any) -> _Answer | None:
        url, kind = request.url.partition("#")[0], request.resource_type
        if request.method != "GET" or kind not in _WANTED or self._spider.bounds.foreign(url):
            return None
        is_page = kind == "document" and request.is_navigation_request()
        if is_page:
            if request.frame.parent_frame is None and url == self._response.url.partition("#")[0]:
                return _answer_of(self._response)
            return None  # a redirect by script, or a frame
        if url in self._kept:
            return self._kept[url]
        self._requests += 1
        if self._requests > REQUESTS:
            return None
        answer = await self._downloaded(url)
        if answer is not None and kind == "script":
            self._kept[url] = answer
            while sum(len(one.body) for one in self._kept.values()) > KEPT_BYTES:
                self._kept.popitem(last=False)
        return answer

    async def _downloaded(self, url: str) -> _Answer | None:
        engine = self._crawler.engine
        meta = {"subrequest": True, "unconditional": True}
        headers = {"Accept": "*/*", "Referer": self._response.url}
        if engine is None:
            return None
        try:
            found = await engine.download_async(Request(url, headers=headers, meta=meta, dont_filter=True))
        except Exception:  # like a browser: the page is shown without it
            return None
        return _answer_of(found)


def _answer_of(response: Response) -> _Answer:
    return _Answer(response.status, content_type_of(response.headers), response.body)

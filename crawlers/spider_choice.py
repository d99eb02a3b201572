"""Chooses the spider for a site by its first page and a few pages linked there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx
from protego import Protego
from scrapy.http import HtmlResponse

from rag_assay.crawlers.links import base_of, clean_url, listed_in, looks_listed
from rag_assay.crawlers.markup import article_of, is_dated, json_ld, meta, reads_as_text
from rag_assay.crawlers.settings import AGENT, ROBOTSTXT_USER_AGENT
from rag_assay.warehouse.inference.http_limits import ENCODINGS, limit
from rag_assay.warehouse.iso_dates import strings
from rag_assay.warehouse.pages import decode

PAGES = 3  # that are looked at beside the first
MOST_BYTES = 2_000_000
MOST_REDIRECTS = 5
SECONDS = 10.0


class SpiderChoice(NamedTuple):
    """The spider that fits a site, and why."""

    spider: str
    why: str


class _UnseenError(Exception):
    """The page cannot be looked at; says why."""


def spider_for(url: str, delay: float = 1.0) -> SpiderChoice:
    headers = {"User-Agent": AGENT, **ENCODINGS}
    with limit(httpx.Client(headers=headers, timeout=SECONDS, trust_env=False)) as client:
        try:
            robots = _robots(client, url)
            first = _page(client, url, robots)
        except _UnseenError as reason:
            return SpiderChoice("site", f"{url} could not be looked at: {reason}")
        pages = [first]
        for link in _links(first):
            time.sleep(delay)
            try:
                pages.append(_page(client, link, robots))
            except _UnseenError:
                continue
    looks = [look for page in pages if (look := _look(page))]
    order = ("news", "blog")
    return min(looks, key=lambda look: order.index(look.spider), default=SpiderChoice("site", _NO_MARKS))


_NO_MARKS = "no page looked at calls itself an article or reads as a dated post"


def _look(page: HtmlResponse) -> SpiderChoice | None:
    selector = page.selector
    kinds = strings((article_of(json_ld(selector)) or {}).get("@type"))
    if any("News" in kind for kind in kinds) or meta(selector, "news_keywords"):
        return SpiderChoice("news", f"{page.url} calls itself a news article")
    if kinds or "article" in meta(selector, "og:type"):
        return SpiderChoice("blog", f"{page.url} calls itself an article")
    if reads_as_text(selector) and is_dated(page):
        return SpiderChoice("blog", f"{page.url} reads as a dated post")
    return None


def _links(page: HtmlResponse) -> list[str]:
    listed = listed_in(page.text) if looks_listed(page.body) else None
    if listed:
        return [one.url for one in listed if _is_same(one.url, page.url)][:PAGES]
    base = base_of(page)
    found = dict.fromkeys(clean_url(base, href) for href in page.xpath("//body//a/@href").getall())
    same_site = [url for url in found if _is_same(url, page.url) and url != page.url]
    return sorted(same_site, key=_promise, reverse=True)[:PAGES]


def _promise(url: str) -> tuple[int, int]:
    path = urlsplit(url).path
    return sum(part.isdecimal() for part in path.split("/")), len(path.rstrip("/").rpartition("/")[2])


def _is_same(url: str, other: str) -> bool:
    hosts = [(urlsplit(one).hostname or "").removeprefix("www.") for one in (url, other)]
    return url.startswith(("http://", "https://")) and hosts[0] == hosts[1]


def _robots(client: httpx.Client, url: str) -> Protego:
    status, body, _, _ = _got(client, urljoin(url, "/robots.txt"))
    if status == 429 or status >= 500:
        raise _UnseenError(f"robots.txt: status {status}")
    return Protego.parse(body.decode("utf-8", "replace") if status == 200 else "")


def _page(client: httpx.Client, url: str, robots: Protego) -> HtmlResponse:
    if not robots.can_fetch(url, ROBOTSTXT_USER_AGENT):
        raise _UnseenError("robots.txt forbids it")
    status, body, kind, where = _got(client, url)
    if status != 200:
        raise _UnseenError(f"status {status}")
    return HtmlResponse(where, body=body, encoding=decode(body, kind)[1])


def _got(client: httpx.Client, url: str) -> tuple[int, bytes, str, str]:
    where = url
    for _ in range(MOST_REDIRECTS):
        try:
            with client.stream("GET", where) as answer:
                onward = answer.headers.get("Location") if answer.is_redirect else None
                if onward is None:
                    body = b"".join(_beginning(answer))
                    return answer.status_code, body, answer.headers.get("Content-Type", ""), where
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _UnseenError(str(error) or type(error).__name__) from error
        where = urljoin(where, onward)
        if not _is_same(where, url):
            raise _UnseenError(f"redirects to another host: {urlsplit(where).hostname}")
    raise _UnseenError("too many redirects")


def _beginning(answer: httpx.Response) -> Iterator[bytes]:
    read = 0
    for part in answer.iter_bytes():
        yield part
        read += len(part)
        if read >= MOST_BYTES:
            return

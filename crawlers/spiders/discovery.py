"""Finds sitemaps in robots.txt and feeds in a page's head."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from scrapy.http import HtmlResponse

from rag_assay.crawlers.links import base_of, clean_url

_FEEDS = (
    "//link[contains(concat(' ', @rel, ' '), ' alternate ')]"
    "[contains(@type, 'rss+xml') or contains(@type, 'atom+xml')]/@href"
    " | //link[contains(concat(' ', @rel, ' '), ' sitemap ')]/@href"
)
MOST_SITEMAPS = 50  # of one robots.txt


def feeds_of(response: HtmlResponse) -> list[str]:
    """Return the feeds and the sitemap that a page's head names."""
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
    """Return whether a URL lies in one of the folders, by either scheme; None means anywhere."""
    if folders is None:
        return True
    bare = url.partition("://")[2]
    return any(bare.startswith(folder.partition("://")[2]) for folder in folders)

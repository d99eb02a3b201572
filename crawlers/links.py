"""Decides which links of a page are followed, with a reason for each that is not."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from urllib.parse import urldefrag, urljoin, urlsplit

from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import IGNORED_EXTENSIONS

from rag_assay.warehouse.source import Source


def clean_url(base: str, href: str) -> str:
    """Return the absolute URL of a link, without its fragment; an empty string where it is none.

    >>> clean_url("https://a.example/x/", " ../y?q=1#top ")
    'https://a.example/y?q=1'
    """
    try:
        return urldefrag(urljoin(base, href.strip())).url
    except ValueError:  # such as http://[broken
        return ""


def base_of(response: Response) -> str:
    """Return what the links of a page are relative to: its `<base href>`, or else its own URL."""
    base = response.xpath("//base/@href").get() if isinstance(response, HtmlResponse) else None
    return clean_url(response.url, base) or response.url if base else response.url


def kind_by_name(url: str, readable: Callable[[str], bool]) -> str | None:
    """Return the media type of which a URL's name says that nobody could read it (`/chart.png`), or None."""
    suffix = PurePosixPath(urlsplit(url).path).suffix.lower()
    if suffix.removeprefix(".") not in IGNORED_EXTENSIONS:
        return None
    kind = mimetypes.guess_type(f"x{suffix}")[0] or "application/octet-stream"
    return None if readable(kind) else kind


class Bounds:
    """Where the crawl of a source may go: its hosts, and what `allow` and `deny` say of their URLs."""

    def __init__(self, source: Source) -> None:
        self.hosts = source.hosts
        self._allowed = [re.compile(pattern) for pattern in source.allow]
        self._denied = [re.compile(pattern) for pattern in source.deny]

    def foreign(self, url: str) -> str | None:
        """Return why a URL is not one of the source's hosts; None where it is. No password is repeated."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            return "no URL"
        if parts.scheme not in {"http", "https"}:
            return f"what is no web page: {parts.scheme}"
        if not any(host == known or host.endswith(f".{known}") for known in self.hosts):
            return f"another host: {host}"
        return "a URL with a user name" if "@" in parts.netloc else None

    def why_not(self, url: str, *, start: bool = False) -> str | None:
        """Return why a URL is not followed; None where it is. A start URL need not match `allow`."""
        if foreign := self.foreign(url):
            return foreign
        if any(pattern.search(url) for pattern in self._denied):
            return "what `deny` forbids"
        if self._allowed and not start and not any(pattern.search(url) for pattern in self._allowed):
            return "what `allow` does not name"
        return None

"""Decides which links of a page are followed, with a reason for each that is not."""

from __future__ import annotations

import math
import mimetypes
import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urldefrag, urljoin, urlsplit

from parsel import Selector
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import IGNORED_EXTENSIONS

from rag_assay.warehouse.iso_dates import iso
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
    base = response.xpath("//base/@href").get() if isinstance(response, HtmlResponse) else None
    return clean_url(response.url, base) or response.url if base else response.url


def kind_by_name(url: str, readable: Callable[[str], bool]) -> str | None:
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
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            return "no URL"
        if parts.scheme not in {"http", "https"}:
            return f"what is not a web page: {parts.scheme}"
        if not any(host == known or host.endswith(f".{known}") for known in self.hosts):
            return f"another host: {host}"
        return "a URL with a user name" if "@" in parts.netloc else None

    def why_not(self, url: str, *, start: bool = False) -> str | None:
        if foreign := self.foreign(url):
            return foreign
        if any(pattern.search(url) for pattern in self._denied):
            return "what `deny` forbids"
        if self._allowed and not start and not any(pattern.search(url) for pattern in self._allowed):
            return "what `allow` does not name"
        return None


class ListedAddress(NamedTuple):
    """An address in a list, its date of publication or last change (UTC), and whether it is itself a list."""

    url: str
    date: datetime | None = None
    is_list: bool = False


# When an entry was published, and when it was changed, in the words of sitemaps, RSS and Atom.
_DATES = ("publication_date", "pubDate", "published")
_CHANGES = ("lastmod", "date", "updated")
_ENTRIES = {
    "urlset": "/urlset/url",
    "sitemapindex": "/sitemapindex/sitemap",
    "rss": "/rss/channel/item",
    "RDF": "/RDF/item",
    "feed": "/feed/entry",
}
_LOOKS_LISTED = re.compile(
    rb"(?:<\?xml[^>]*>\s*|<!--.*?-->\s*|<!doctype[^>]*>\s*)*<(?:urlset|sitemapindex|rss|rdf:RDF|feed)\b",
    re.I | re.S,
)
_SNIFFED = 4096  # bytes in which a list shows what it is


def listed_in(text: str) -> list[ListedAddress] | None:
    """Return what a sitemap, a sitemap index, an RSS or an Atom feed lists, newest first; None for any
    other XML.

    >>> text = "<urlset><url><loc>/old</loc><lastmod>2024-01-01</lastmod></url>"
    >>> text += "<url><loc>/new</loc><lastmod>2025-01-01T10:00:00+02:00</lastmod></url></urlset>"
    >>> [(one.url, one.date.isoformat()) for one in listed_in(text)]
    [('/new', '2025-01-01T08:00:00+00:00'), ('/old', '2024-01-01T00:00:00+00:00')]
    """
    # The declared encoding is cut off: the text is decoded already, and lxml refuses both together.
    xml = Selector(text=re.sub(r"^\s*<\?xml[^>]*\?>", "", text), type="xml")
    xml.remove_namespaces()
    form = xml.root.tag if isinstance(getattr(xml.root, "tag", None), str) else ""
    if form not in _ENTRIES:
        return None
    found = [
        ListedAddress(url, _date(entry.root), form == "sitemapindex")
        for entry in xml.xpath(_ENTRIES[form])
        for url in map(str.strip, _addresses(entry.root, form))
        if url
    ]
    return sorted(found, key=lambda one: -one.date.timestamp() if one.date else math.inf)


def looks_listed(body: bytes) -> bool:
    """Return whether a body begins as a sitemap or feed does, whatever its media type says.

    >>> looks_listed(b'<?xml version="1.0"?>\\n<rss version="2.0">'), looks_listed(b"<!doctype html><html>")
    (True, False)
    """
    return _LOOKS_LISTED.match(body[:_SNIFFED].removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


def listed_lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines if all(re.fullmatch(r"https?://\S+", line) for line in lines) else []


def _addresses(entry: Any, form: str) -> list[str]:
    if form in {"urlset", "sitemapindex"}:
        return _texts(entry, ("loc",))
    if form == "feed":
        links = (one for one in entry if one.tag == "link" and one.get("rel", "alternate") == "alternate")
        return [link.get("href", "") for link in links]
    permanent = (one for one in entry if one.tag == "guid" and one.get("isPermaLink") != "false")
    return _texts(entry, ("link",)) or [guid.text or "" for guid in permanent]


def _texts(entry: Any, names: tuple[str, ...]) -> list[str]:
    return [child.text for child in entry if child.tag in names and child.text]


def _date(entry: Any) -> datetime | None:
    news = (text for child in entry if child.tag == "news" for text in _texts(child, _DATES))
    texts = (*_texts(entry, _DATES), *news, *_texts(entry, _CHANGES))
    return next(filter(None, map(_time, texts)), None)


def _time(text: str) -> datetime | None:
    text = text.strip()
    written = iso(text)
    try:
        date = datetime.fromisoformat(written) if written else parsedate_to_datetime(text)
        return date.astimezone(UTC) if date.tzinfo else date.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None

"""Addresses listed by sitemaps, RSS and Atom feeds, newest first."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from parsel import Selector

from rag_assay.warehouse.iso_dates import iso


class ListedAddress(NamedTuple):
    """An address that a list names.

    date: when the page was published, or else changed, in UTC; None where the list does not say
    is_list: a sitemap of a sitemap index, which is a list itself
    """

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
    """Return what a sitemap, a sitemap index, an RSS or an Atom feed lists; None for any other XML.

    The newest come first, those without a date last, each in the order of the list. Entities that the file
    itself declares are not expanded, nor is anything fetched for them.

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
    return sorted(found, key=_newest_first)


def looks_listed(body: bytes) -> bool:
    """Return whether a body begins as a sitemap or feed does, whatever its media type says.

    >>> looks_listed(b'<?xml version="1.0"?>\\n<rss version="2.0">'), looks_listed(b"<!doctype html><html>")
    (True, False)
    """
    return _LOOKS_LISTED.match(body[:_SNIFFED].removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


def listed_lines(text: str) -> list[str]:
    """Return the addresses of a sitemap in plain text, one a line; none where a line is anything else."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines if all(re.fullmatch(r"https?://\S+", line) for line in lines) else []


def _newest_first(one: ListedAddress) -> float:
    return -one.date.timestamp() if one.date else float("inf")


def _addresses(entry: Any, form: str) -> list[str]:
    """Return the addresses of an entry, an lxml element; tens of thousands are read without XPath."""
    if form in {"urlset", "sitemapindex"}:
        return _texts(entry, ("loc",))
    if form == "feed":
        links = (
            child for child in entry if child.tag == "link" and child.get("rel", "alternate") == "alternate"
        )
        return [link.get("href", "") for link in links]
    permanent = (one for one in entry if one.tag == "guid" and one.get("isPermaLink") != "false")
    return _texts(entry, ("link",)) or [guid.text or "" for guid in permanent]


def _texts(entry: Any, names: tuple[str, ...]) -> list[str]:
    return [child.text for child in entry if child.tag in names and child.text]


def _date(entry: Any) -> datetime | None:
    """Return the date of an entry, of a news sitemap too; a day stands for its beginning in UTC."""
    news = (text for child in entry if child.tag == "news" for text in _texts(child, _DATES))
    for text in (*_texts(entry, _DATES), *news, *_texts(entry, _CHANGES)):
        if date := _time(text.strip()):
            return date
    return None


def _time(text: str) -> datetime | None:
    written = iso(text)
    try:
        date = datetime.fromisoformat(written) if written else parsedate_to_datetime(text)
        return date.astimezone(UTC) if date.tzinfo else date.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None

"""What a page says of itself: JSON-LD, OpenGraph, meta tags, dates; and the addresses in feeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

from parsel import Selector, SelectorList

from warehouse.json_ld import nodes_in, strings

Node = dict[str, Any]

ARTICLE_TYPES = frozenset(
    {
        "Article", "NewsArticle", "ReportageNewsArticle", "AnalysisNewsArticle", "OpinionNewsArticle",
        "BackgroundNewsArticle", "ReviewNewsArticle", "AskPublicNewsArticle", "LiveBlogPosting",
        "BlogPosting", "SocialMediaPosting", "TechArticle", "ScholarlyArticle", "Report",
    }
)  # fmt: skip
_DAY_FIRST = re.compile(r"\b(\d{1,2})[./](\d{1,2})[./](\d{4})\b")


def json_ld(page: Selector) -> list[Node]:
    """Return the nodes of all JSON-LD blocks, lists and `@graph` unfolded; a broken block is left out."""
    texts = page.xpath("//script[@type='application/ld+json']/text()").getall()
    return [node for text in texts for node in nodes_in(text, "@graph")]


def article_of(nodes: list[Node]) -> Node | None:
    """Return the one article that the page is about; None where there is none, or a list of several."""
    found = [node for node in nodes if ARTICLE_TYPES.intersection(strings(node.get("@type")))]
    return found[0] if len(found) == 1 else None


def meta(page: Selector, *names: str) -> list[str]:
    """Return the meta tags' contents of the first name that has any (`name`, `property`, `itemprop`)."""
    for name in names:
        found = page.xpath(
            "//meta[@name=$name or @property=$name or @itemprop=$name]/@content", name=name
        ).getall()
        if values := [text for text in map(squeezed, found) if text]:
            return values
    return []


def first(*candidates: Any) -> str | None:
    """Return the first string among the candidates, or in lists of them, that holds more than white space."""
    for candidate in candidates:
        for text in strings(candidate):
            if squeezed(text):
                return squeezed(text)
    return None


def names(*values: Any) -> list[str]:
    """Return the distinct persons of the first value that names any, in their order."""
    for value in values:
        if found := distinct(text for text in strings(value) if "://" not in text):
            return found
    return []


def listed(*values: Any) -> list[str]:
    """Return the distinct words of comma- or semicolon-separated strings, in their order.

    >>> listed("Fußball, Köln", ["Köln; Derby"])
    ['Fußball', 'Köln', 'Derby']
    """
    return distinct(part for value in values for text in strings(value) for part in re.split(r"[,;]", text))


def distinct(texts: Iterator[str] | list[str]) -> list[str]:
    """Return texts without white space around them, each once (case aside), empty ones left out."""
    found: dict[str, str] = {}
    for text in map(squeezed, texts):
        if text:
            found.setdefault(text.casefold(), text)
    return list(found.values())


def squeezed(text: str | None) -> str:
    """Return a text with all runs of white space made one space."""
    return " ".join((text or "").split())


def text_of(found: Selector | SelectorList[Selector]) -> str:
    """Return the text of the (first) element, white space squeezed."""
    node = found[:1] if isinstance(found, SelectorList) else found
    return squeezed(" ".join(node.xpath(".//text()").getall()))


def iso(*candidates: Any) -> str | None:
    """Return the first date or time among the candidates in ISO 8601, as precise as it stands there.

    Day-first dates (`24/05/2022`, `24.5.2022`) are read too; a date that no calendar has is none.

    >>> iso("24/05/2022; Date of signature"), iso("2024-06-20T12:00:00+01:00"), iso("99/99/9999")
    ('2022-05-24', '2024-06-20T12:00:00+01:00', None)
    """
    for candidate in candidates:
        for text in strings(candidate):
            if found := _iso(text.strip()):
                return found
    return None


def _iso(text: str) -> str | None:
    try:
        if len(text) == 10:
            return date.fromisoformat(text).isoformat()
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        pass
    if not (found := _DAY_FIRST.search(text)):
        return None
    day, month, year = map(int, found.groups())
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something: no None, no empty string or list."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def listed_urls(text: str) -> list[str] | None:
    """Return the addresses in a sitemap, a sitemap index, an RSS or an Atom feed; None for any other XML."""
    # The declared encoding is cut off: the text is decoded already, and lxml refuses both together.
    xml = Selector(text=re.sub(r"^\s*<\?xml[^>]*\?>", "", text), type="xml")
    xml.remove_namespaces()
    found = {
        "urlset": "/urlset/url/loc/text()",
        "sitemapindex": "/sitemapindex/sitemap/loc/text()",
        "rss": "/rss/channel/item/link/text()",
        "RDF": "/RDF/item/link/text()",
        "feed": "/feed/entry/link[not(@rel) or @rel='alternate']/@href",
    }.get(xml.root.tag if isinstance(getattr(xml.root, "tag", None), str) else "")
    return [url.strip() for url in xml.xpath(found).getall() if url.strip()] if found else None

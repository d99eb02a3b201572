"""Reads JSON-LD, OpenGraph and meta tags of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from parsel import Selector, SelectorList
from scrapy.http import Headers, HtmlResponse

from rag_assay.warehouse.iso_dates import nodes_in, strings

Node = dict[str, Any]

ARTICLE_TYPES = frozenset(
    {
        "Article", "NewsArticle", "ReportageNewsArticle", "AnalysisNewsArticle", "OpinionNewsArticle",
        "BackgroundNewsArticle", "ReviewNewsArticle", "AskPublicNewsArticle", "LiveBlogPosting",
        "BlogPosting", "SocialMediaPosting", "TechArticle", "ScholarlyArticle", "Report",
    }
)  # fmt: skip


def content_type_of(headers: Headers) -> str:
    return (headers.get("Content-Type") or b"").decode("latin-1")


def json_ld(page: Selector) -> list[Node]:
    texts = page.xpath("//script[@type='application/ld+json']/text()").getall()
    return [node for text in texts for node in nodes_in(text, "@graph")]


def article_of(nodes: list[Node]) -> Node | None:
    """Return the one article that the page is about; None where there is none, or a list of several."""
    found = [node for node in nodes if ARTICLE_TYPES.intersection(strings(node.get("@type")))]
    return found[0] if len(found) == 1 else None


def meta(page: Selector, *names: str) -> list[str]:
    for name in names:
        found = page.xpath(
            "//meta[@name=$name or @property=$name or @itemprop=$name]/@content", name=name
        ).getall()
        if values := [text for text in map(collapse_whitespace, found) if text]:
            return values
    return []


def first(*candidates: Any) -> str | None:
    texts = (collapse_whitespace(text) for candidate in candidates for text in strings(candidate))
    return next(filter(None, texts), None)


def names(*values: Any) -> list[str]:
    found = (distinct(text for text in strings(value) if "://" not in text) for value in values)
    return next(filter(None, found), [])


def listed(*values: Any) -> list[str]:
    """Return the distinct words of comma- or semicolon-separated strings, in their order.

    >>> listed("Fußball, Köln", ["Köln; Derby"])
    ['Fußball', 'Köln', 'Derby']
    """
    return distinct(part for value in values for text in strings(value) for part in re.split(r"[,;]", text))


def distinct(texts: Iterator[str] | list[str]) -> list[str]:
    found: dict[str, str] = {}
    for text in map(collapse_whitespace, texts):
        if text:
            found.setdefault(text.casefold(), text)
    return list(found.values())


def collapse_whitespace(text: str | None) -> str:
    return " ".join((text or "").split())


def text_of(found: Selector | SelectorList[Selector]) -> str:
    node = found[:1] if isinstance(found, SelectorList) else found
    return collapse_whitespace(" ".join(node.xpath(".//text()").getall()))


def present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


LEAST_WORDS = 25  # outside links: a page of fewer is a menu, a form or a notice
_BESIDE = (
    "ancestor::nav or ancestor::header or ancestor::footer or ancestor::aside or ancestor::form"
    " or ancestor::script or ancestor::style or ancestor::noscript or ancestor::template or ancestor::button"
)
_EDGE = 40  # words at either end of a page's text, where a post has its date
_IN_ADDRESS = re.compile(r"(?<!\d)(?:19|20)\d\d[/_-](?:0?[1-9]|1[0-2])(?!\d)")
_DATE = re.compile(
    r"\b(?:19|20)\d\d-\d\d-\d\d\b|\b\d{1,2}[./]\s?\d{1,2}[./]\s?(?:19|20)\d\d\b"
    r"|\b\d{1,2}(?:st|nd|rd|th|\.)? [^\W\d_]{3,9}\.?,? (?:19|20)\d\d\b"
    r"|\b[^\W\d_]{3,9}\.? \d{1,2}(?:st|nd|rd|th)?,? (?:19|20)\d\d\b"
)
_TEXT = f"//body//text()[not(ancestor::a) and not({_BESIDE})]"
_LINKS = f"//body//a//text()[not({_BESIDE})]"
_HEADINGS = f"//body//*[self::h1 or self::h2 or self::h3 or self::h4][not({_BESIDE})]"
_LINKED = f"{_HEADINGS}[.//a[@href] or ancestor::a[@href]]"


def reads_as_text(page: Selector) -> bool:
    """Return whether an unmarked page is a text: words outside links, twice those within, and no teasers."""
    words, linked = (_count(page.xpath(path).getall()) for path in (_TEXT, _LINKS))
    return words >= 2 * linked and has_prose(page)


def has_prose(page: Selector) -> bool:
    """Enough words outside links and menus, and no list of teasers; links in menus do not matter."""
    words = _count(page.xpath(_TEXT).getall())
    headings, leading = len(page.xpath(_HEADINGS)), len(page.xpath(_LINKED))
    return words >= LEAST_WORDS and not (leading >= 2 and 2 * leading >= headings)


FEWEST_WORDS = 5  # words; a page with scripts and fewer words needs them to run
_MESSAGE = 60  # words of a page that asks for scripts
VISIBLE = (
    "//body//text()[not(ancestor::script or ancestor::style or ancestor::noscript or ancestor::template)]"
)
_RUNS = "//script[not(@type) or @type = '' or @type = 'module' or contains(@type, 'javascript')]"  # no data
_ASKS = re.compile(
    r"(?:enable|activate|turn on|requires?|needs?|without|aktivier\w*|benötigt|activer?|habilit\w*)\W+"
    r"(?!no\b)(?:\w+\W+){0,6}?javascript"
    r"|javascript\W+(?:\w+\W+){0,6}?"
    r"(?:enabled?|disabled|required|(?:de)?aktivier\w*|erforderlich|(?:dés)?activé|habilit\w*)",
    re.I,
)


def is_scripts_only(page: Selector, *, ran: bool = False) -> bool:
    """Almost no text before scripts run, or a request to enable them; ran: they have run."""
    if not page.xpath(_RUNS) or page.xpath("//frameset | //body//iframe"):
        return False
    shown = " ".join(page.xpath(VISIBLE).getall())
    words = len(shown.split())
    if words < (1 if ran else FEWEST_WORDS) and not page.xpath("//body//a[@href]"):
        return True
    notices = " ".join(page.xpath("//noscript//text()").getall())
    few = words < _MESSAGE and _count(page.xpath(_TEXT).getall()) < LEAST_WORDS
    return few and bool(_ASKS.search(shown) or (words < FEWEST_WORDS and _ASKS.search(notices)))


def is_dated(response: HtmlResponse) -> bool:
    page = response.selector
    words = " ".join(page.xpath(_TEXT).getall()).split()
    edges = f"{' '.join(words[:_EDGE])} … {' '.join(words[-_EDGE:])}"
    return bool(
        _IN_ADDRESS.search(urlsplit(response.url).path)
        or meta(page, "date", "article:published_time", "datePublished", "dcterms.date", "DC.date")
        or page.xpath("//body//time")
        or _DATE.search(edges)
    )


def _count(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)

"""Reads JSON-LD, OpenGraph and meta tags of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from parsel import Selector, SelectorList

from rag_assay.warehouse.json_ld import nodes_in, strings

Node = dict[str, Any]

ARTICLE_TYPES = frozenset(
    {
        "Article", "NewsArticle", "ReportageNewsArticle", "AnalysisNewsArticle", "OpinionNewsArticle",
        "BackgroundNewsArticle", "ReviewNewsArticle", "AskPublicNewsArticle", "LiveBlogPosting",
        "BlogPosting", "SocialMediaPosting", "TechArticle", "ScholarlyArticle", "Report",
    }
)  # fmt: skip


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
        if values := [text for text in map(collapse_whitespace, found) if text]:
            return values
    return []


def first(*candidates: Any) -> str | None:
    """Return the first string among the candidates, or in lists of them, that holds more than white space."""
    for candidate in candidates:
        for text in strings(candidate):
            if collapse_whitespace(text):
                return collapse_whitespace(text)
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
    for text in map(collapse_whitespace, texts):
        if text:
            found.setdefault(text.casefold(), text)
    return list(found.values())


def collapse_whitespace(text: str | None) -> str:
    """Return a text with all runs of white space made one space."""
    return " ".join((text or "").split())


def text_of(found: Selector | SelectorList[Selector]) -> str:
    """Return the text of the (first) element, white space squeezed."""
    node = found[:1] if isinstance(found, SelectorList) else found
    return collapse_whitespace(" ".join(node.xpath(".//text()").getall()))


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something: no None, no empty string or list."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}

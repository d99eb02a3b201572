"""Tells by its text whether a page without metadata is an article or a list of links."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from parsel import Selector
from scrapy.http import HtmlResponse

from rag_assay.crawlers.markup import meta

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
    """Return whether a page without any mark reads as a text of its own: a post, an article, a manual's page.

    That is, it has words enough outside links and menus, twice as many as within links; and it is no list of
    teasers: of two headings or more, most lead to other pages.
    """
    words, linked = (_count(page.xpath(path).getall()) for path in (_TEXT, _LINKS))
    headings, leading = len(page.xpath(_HEADINGS)), len(page.xpath(_LINKED))
    is_list = leading >= 2 and 2 * leading >= headings
    return words >= LEAST_WORDS and words >= 2 * linked and not is_list


def is_dated(response: HtmlResponse) -> bool:
    """Return whether a page has a date: in its address, its head, a `<time>`, or above or below its text."""
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

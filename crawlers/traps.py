"""Crawler traps: endless series of pages that differ only in numbers and dates, such as calendars."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from parsel import Selector

from rag_assay.crawlers.markup import VISIBLE

NEARLY = 0.9  # share of the word triples that two pages have in common
# Word triples that only the later page has: under large menus, pages of products are nearly alike.
MOST_NEW = 10
_WORDS = 2000  # words of a page that are compared
# Months and days of the week.
_NAMES = frozenset(
    re.findall(
        r"\w+",
        "january february march april may june july august september october november december jan feb mar "
        "apr jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon "
        "tue wed thu fri sat sun januar februar märz mai juni juli oktober dezember montag dienstag "
        "mittwoch donnerstag freitag samstag sonntag janvier février mars avril juin juillet août septembre "
        "octobre novembre décembre lundi mardi mercredi jeudi vendredi samedi dimanche enero febrero marzo "
        "abril mayo junio julio agosto septiembre octubre noviembre diciembre lunes martes miércoles jueves "
        "viernes sábado domingo gennaio febbraio aprile maggio giugno luglio settembre ottobre novembre "
        "dicembre ",
    )
)


class Footprint(NamedTuple):
    """A page of a series: the pattern of its URL, its URL, and the triples of its words."""

    pattern: str
    url: str
    triples: frozenset[int]


def pattern_of(url: str) -> str:
    """Return a URL with its numbers, and the values of its parameters, taken out.

    >>> pattern_of("https://a.example/cal/2024-05/?view=month&d=7")
    'https://a.example/cal/#-#/?d&view'
    """
    parts = urlsplit(url)
    names = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)})
    path = re.sub(r"\d+", "#", parts.path)
    return f"{parts.scheme}://{parts.netloc}{path}{'?' if names else ''}{'&'.join(names)}"


def footprint(page: Selector, url: str) -> Footprint:
    words = [
        word
        for word in re.findall(r"[^\W\d_]+", " ".join(page.xpath(VISIBLE).getall()).lower())[:_WORDS]
        if word not in _NAMES
    ]
    triples = zip(words, words[1:], words[2:], strict=False)
    return Footprint(pattern_of(url), url, frozenset(map(hash, triples)) or frozenset(map(hash, words)))


def is_like(one: Footprint, other: Footprint) -> bool:
    """Return whether a page adds almost no words to the other one, numbers and dates aside."""
    if one.pattern != other.pattern or one.url == other.url:
        return False
    if len(one.triples - other.triples) > MOST_NEW:
        return False
    both = len(one.triples & other.triples)
    return both >= NEARLY * len(one.triples | other.triples)

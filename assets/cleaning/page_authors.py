"""The authors of an article: persons rather than the organisation or site."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rag_assay.assets.cleaning.page_titles import plain
from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace
from rag_assay.warehouse.json_ld import Node, strings

AGENCIES = frozenset(
    "aap afp ansa ap apa cnn dapd ddp dpa dts efe epa epd kna pa rnd reuters sda sid tass upi".split()  # noqa: SIM905 -- readable
)
_PARTICLES = (
    r"(?:van|von|vom|zu|zum|zur|de|der|den|del|della|dem|di|da|do|dos|du|el|al|bin|ibn|la|le|ten|ter|y)"
)
_WORD = r"(?:[dDlO]['’])?[^\W\d_a-zß][\w.'’-]*"
NAME = rf"{_WORD}(?: (?:{_PARTICLES} )*{_WORD}){{0,4}}"
"""A name as a regular expression: one to five words that begin with a capital, particles between them."""

_LEAD = re.compile(r"(?:von|by|text|autor(?:in)?|author|words|written by|ein beitrag von)\b[:\s]\s*", re.I)
_COMMAS = re.compile(r"\s*[,;|/]\s+|\s*;\s*")
_AND = re.compile(r"\s+(?:und|and|&|et|y|mit)\s+")
_AFTER = frozenset("jr sr md m.d phd ph.d dr esq ii iii llm mba".split())  # noqa: SIM905 -- readable
_NOBODY = re.compile(
    r"redaktion|editor(?:s|ial)|\bstaff\b|\bteam\b|nachrichten|\bnews\b|online\b|zeitung|verlag"
    r"|press(?:e|estelle)?\b|admin|\bwww\.|\.(?:de|com|org|net|at|ch|eu|uk)\b|@|\bgmbh\b|\binc\b",
    re.I,
)
_PLACES = ("author", "article:author", "dc.creator", "parsely-author", "twitter:misc:written by")

_CLASS = "translate(@class, 'ABEHILNORTUY', 'abehilnortuy')"
_MAIN = (
    "[not(ancestor-or-self::nav or ancestor-or-self::aside or ancestor-or-self::footer or ancestor::figure"
    f" or ancestor-or-self::*[contains({_CLASS}, 'comment')])]"
)
_BYLINE = (
    f".//*[@rel='author' or @itemprop='author' or contains({_CLASS}, 'author')"
    f" or contains({_CLASS}, 'autor') or contains({_CLASS}, 'byline')]{_MAIN}"
)
_LINES = f".//*[self::p or self::li or self::div or self::span or self::address][not(ancestor::a)]{_MAIN}"
_LONGEST = 120  # characters of a byline
_MOST = 8  # elements in it


def authors_of(
    root: Element, article: Node, tags: dict[str, list[str]], sites: Iterable[str]
) -> tuple[str, ...]:
    """Return the names of a page's authors, each once, in the page's order.

    Of what JSON-LD, meta tags and the byline say, the first counts that names a person or an agency; where
    none does, the first that names anybody. The site itself is no author beside a person.
    """
    site_names = {plain(site).replace(" ", "") for site in sites} - {""}
    first: tuple[str, ...] = ()
    for names in _author_candidates(article, tags):
        if persons := tuple(name for name in names if _is_person(name, site_names)):
            return persons
        first = first or names
    return _shown(root, site_names) or first


def _author_candidates(article: Node, tags: dict[str, list[str]]) -> Iterator[tuple[str, ...]]:
    creators = article.get("author") or article.get("creator")
    nodes = creators if isinstance(creators, list) else [creators]
    yield _distinct(name for node in nodes for name in _of_node(node))
    for place in _PLACES:
        yield _distinct(name for text in tags.get(place, []) for name in names_in(text))


def _of_node(node: Any) -> list[str]:
    texts = strings(node)
    if isinstance(node, dict) and any("Organization" in kind for kind in strings(node.get("@type"))):
        return texts
    return [name for text in texts for name in names_in(text)]


def _is_person(name: str, sites: set[str]) -> bool:
    if name.casefold() in AGENCIES:
        return True
    return plain(name).replace(" ", "") not in sites and not _NOBODY.search(name)


def _shown(root: Element, sites: set[str]) -> tuple[str, ...]:
    """Return the persons that the first byline on the page names in full."""
    marked = (collapse_whitespace(" ".join(node.itertext())) for node in root.xpath(_BYLINE))
    lines = (
        collapse_whitespace("".join(node.itertext())) for node in root.xpath(_LINES) if len(node) <= _MOST
    )
    for text in (*marked, *(line for line in lines if _LEAD.match(line))):
        names = [name for name in names_in(text) if _is_person(name, sites)] if len(text) <= _LONGEST else []
        if names and all(_is_name(name) for name in names) and any(" " in name for name in names):
            return _distinct(names)
    return ()


def names_in(text: str) -> list[str]:
    """Return the names in a byline; what does not read as a list of names is one.

    >>> names_in("Von Ada Kern und Ben Au, dpa"), names_in("Institute of Law and Order")
    (['Ada Kern', 'Ben Au', 'dpa'], ['Institute of Law and Order'])
    """
    line = collapse_whitespace(text)
    whole = _LEAD.sub("", line, count=1) if _LEAD.match(line) else line
    if not whole or "://" in whole:
        return []
    parts = [part.strip(" ,") for part in _COMMAS.split(whole) if part.strip(" ,")]
    named = [name for part in _with_titles(parts) for name in _parted(part)]
    surname_first = len(named) == len(parts) == 2 and all(map(_is_single, named))  # "Kern, Ada"
    if surname_first or not all(map(_is_name, named)):
        return [whole]
    places = len(named) > 1 and " " in named[0]  # beside names in full, a single word is a place
    return [name for name in named if not (places and _is_single(name))]


def _with_titles(parts: list[str]) -> list[str]:
    """Put what follows a name behind a comma, such as `Jr.`, back to it."""
    found: list[str] = []
    for part in parts:
        if found and part.rstrip(".").casefold() in _AFTER:
            found[-1] += f", {part}"
        else:
            found.append(part)
    return found


def _parted(part: str) -> list[str]:
    names = _AND.split(part)
    return names if all(_is_name(name) and not _is_single(name) for name in names) else [part]


def _is_single(name: str) -> bool:
    return " " not in name and name.casefold() not in AGENCIES


def _is_name(text: str) -> bool:
    return text.casefold() in AGENCIES or re.fullmatch(NAME, text.partition(", ")[0]) is not None


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for name in map(collapse_whitespace, names):
        if name and "://" not in name:
            found.setdefault(name.casefold(), name)
    return tuple(found.values())

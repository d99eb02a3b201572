"""Metadata of an article from its page: JSON-LD, OpenGraph, meta tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lxml import etree

from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace, without_invisible
from rag_assay.warehouse.iso_dates import Node, first_iso, nodes_in, strings

SEPARATOR = re.compile(r"\s+(?:[|·•»«›‹<>~/]|::?|[-–—])\s+")
_LOOSE = re.compile(rf"{SEPARATOR.pattern}|:\s+|\s*\|\s*")  # where a title that is known tells what they part


class Titles(NamedTuple):
    """What the page calls the article, in each of the places where it does, without the names of the site."""

    headline: str | None
    shared: str | None  # OpenGraph's
    heading: str | None  # an h1
    window: str | None  # the title element
    alternative: str | None

    def chosen(self) -> str | None:
        """Choose among the titles: JSON-LD's headline, but OpenGraph's if it is that without a kicker or with
        better typography, and another on which heading, window and OpenGraph agree if there is no alternative
        headline.
        """
        headline, shared = self.headline, self.shared
        if not headline:
            return shared or self.heading or self.window
        if shared and (plain(shared) == plain(headline) or _ends_with(headline, shared)):
            return shared
        others = {plain(text or "") for text in (shared, self.heading, self.window)}
        if shared and len(others) == 1 and not self.alternative:
            return shared
        return headline


def titles_of(
    root: Element, headline: str | None, alternative: str | None, shared: str | None, sites: Iterable[str]
) -> Titles:
    names = {plain(name) for name in sites} - {""}
    window = next((collapse_whitespace("".join(node.itertext())) for node in root.iter("title")), None)
    headings = [collapse_whitespace(" ".join(node.itertext())) for node in root.iter("h1")]
    headings = [text for text in headings if text and plain(text) not in names]
    title_texts = " ".join(plain(text) for text in (headline, shared, window) if text)
    heading = next((text for text in headings if plain(text) in title_texts), next(iter(headings), None))
    known = [text for text in (heading, headline) if text]

    def clean(text: str | None) -> str | None:
        return without_site(text, names, known) if text else None

    return Titles(clean(headline), clean(shared), clean(heading), clean(window), alternative)


def without_site(title: str, sites: Iterable[str], known: list[str]) -> str | None:
    """Cut the parts of a title that name the site or its section; None if it names nothing else.

    sites: names of the site, by `plain`
    known: other titles on the page; where ``title`` begins with one, that is all of it

    >>> without_site("Headline | Politics | DW | 28.04.2023", {"dw"}, ["Headline"])
    'Headline'
    >>> without_site("The Harbour: Low tide at noon", {"the harbour"}, ["Low Tide at Noon"])
    'Low tide at noon'
    """
    if plain(title) in sites:
        return None
    for cut in _LOOSE.finditer(title):
        before, after = title[: cut.start()], title[cut.end() :]
        if cut[0].strip() != ":" and any(plain(before) == plain(text) != "" for text in known):
            return before
        if plain(before) in sites and any(plain(after) == plain(text) != "" for text in known):
            return after
    return _without_names(title, sites)


def _without_names(title: str, sites: Iterable[str]) -> str:
    cuts = list(SEPARATOR.finditer(title))
    for cut in cuts:
        if plain(title[cut.end() :]) in sites:
            return title[: cut.start()]
    if cuts and plain(title[: cuts[0].start()]) in sites:
        return title[cuts[0].end() :]
    pipes = [cut.start() for cut in cuts if "|" in cut[0]]
    return title[: pipes[0]] if pipes and pipes[0] > 15 else title


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text).casefold().strip()


def _ends_with(long: str, short: str) -> bool:
    return len(short) >= 20 and long.endswith(short) and not long[: -len(short)][-1:].isalnum()


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
_FIRST_WORD = re.compile(r"(\w+)[^\w&]")
_LEADS = frozenset("von by text autor autorin author words written ein".split())  # noqa: SIM905 -- readable
_COMMAS = re.compile(r"\s*[,;|/]\s+|\s*;\s*")
_AND = re.compile(r"\s+(?:und|and|&|et|y|mit)\s+")
_AFTER = frozenset("jr sr md m.d phd ph.d dr esq ii iii llm mba".split())  # noqa: SIM905 -- readable
_NO_PERSON = re.compile(
    r"redaktion|editor(?:s|ial)|\bstaff\b|\bteam\b|nachrichten|\bnews\b|online\b|zeitung|verlag"
    r"|press(?:e|estelle)?\b|admin|\bwww\.|\.(?:de|com|org|net|at|ch|eu|uk)\b|@|\bgmbh\b|\binc\b",
    re.I,
)
_PLACES = ("author", "article:author", "dc.creator", "parsely-author", "twitter:misc:written by")

_LOWER = "translate(., 'ABEHILNORTUY', 'abehilnortuy')"
_MAIN = (
    "[not(ancestor-or-self::nav or ancestor-or-self::aside or ancestor-or-self::footer or ancestor::figure"
    f" or ancestor-or-self::*/@class[contains({_LOWER}, 'comment')])]"
)
_BYLINE = (
    f".//*[@rel='author' or @itemprop='author' or @class[contains({_LOWER}, 'author')"
    f" or contains({_LOWER}, 'autor') or contains({_LOWER}, 'byline')]]{_MAIN}"
)
_VALUES = etree.XPath("//@rel | //@itemprop | //@class", smart_strings=False)
# One of them is in a value for each element of `_BYLINE`, which takes ten times as long.
_MARKS = ("author", "autor", "byline")
_OF_THE_TEXT = etree.XPath(f"boolean(self::*[not(ancestor::a)]{_MAIN})")
_LONGEST = 120  # characters of a byline
_MOST = 8  # elements in it


def authors_of(
    root: Element, article: Node, tags: dict[str, list[str]], sites: Iterable[str]
) -> tuple[str, ...]:
    """Return the names of a page's authors, each once, in order: the first of JSON-LD, meta tags and byline
    that names a person or agency, else anybody. The site is no author beside a person.
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
    yield _distinct_names(name for node in nodes for name in _of_node(node))
    for place in _PLACES:
        yield _distinct_names(name for text in tags.get(place, []) for name in names_in(text))


def _of_node(node: Any) -> list[str]:
    texts = strings(node)
    if isinstance(node, dict) and any("Organization" in kind for kind in strings(node.get("@type"))):
        return texts
    return [name for text in texts for name in names_in(text)]


def _is_person(name: str, sites: set[str]) -> bool:
    if name.casefold() in AGENCIES:
        return True
    return plain(name).replace(" ", "") not in sites and not _NO_PERSON.search(name)


def _shown(root: Element, sites: set[str]) -> tuple[str, ...]:
    values = {value.lower() for value in _VALUES(root)}
    nodes = root.xpath(_BYLINE) if any(mark in value for value in values for mark in _MARKS) else ()
    marked = (collapse_whitespace(" ".join(node.itertext())) for node in nodes)
    lines = (
        collapse_whitespace("".join(node.itertext()))
        for node in root.iterdescendants("p", "li", "div", "span", "address")
        if len(node) <= _MOST and _may_lead(node) and _OF_THE_TEXT(node)
    )
    for text in (*marked, *(line for line in lines if _LEAD.match(line))):
        names = [name for name in names_in(text) if _is_person(name, sites)] if len(text) <= _LONGEST else []
        if names and all(_is_name(name) for name in names) and any(" " in name for name in names):
            return _distinct_names(names)
    return ()


def _may_lead(node: Element) -> bool:
    """Return whether an element's text may begin with a word that `_LEAD` begins with, or with an entity."""
    for part in node.itertext():
        if text := without_invisible(part).lstrip():
            if text[0] not in "vbtaweVBTAWE&":
                return False
            word = _FIRST_WORD.match(text)
            return word is None or word[1].casefold() in _LEADS
    return False


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


def _distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    return _distinct(name for name in names if "://" not in name)


_ARTICLE = re.compile(r"(?:\w*Article|BlogPosting|LiveBlogPosting|SocialMediaPosting|Report)")
_SITE = 40  # characters that the name of a site has at most; some pages write their title in its place
_DAY = re.compile(r"\d{1,2}\.\s?\d{1,2}\.\s?\d{4}")
_DESCRIPTIONS = ("og:description", "description", "twitter:description")
_PUBLISHED = (
    "article:published_time", "date", "datepublished", "dc.date", "dc.date.issued", "sailthru.date",
    "parsely-pub-date",
)  # fmt: skip


class PageFacts(NamedTuple):
    """What the page says; None and empty where it does not."""

    title: str | None = None
    headline: str | None = None  # JSON-LD's
    headings: frozenset[str] = frozenset()  # all of the statements: a text need not repeat them
    published_at: str | None = None
    date_source: str | None = None  # of `published_at`: json_ld or meta
    modified_at: str | None = None
    authors: tuple[str, ...] = ()
    news_keywords: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    description: str | None = None
    descriptions: tuple[str, ...] = ()  # all of the statements
    section: str | None = None
    sitename: str | None = None
    language: str | None = None


def page_facts(root: Element, url: str = "") -> PageFacts:
    nodes = json_ld(root)
    article = article_of(nodes)
    tags: dict[str, list[str]] = {}
    for tag in root.iter("meta"):
        content = collapse_whitespace(tag.get("content") or "")
        for name in (tag.get("name"), tag.get("property"), tag.get("itemprop")):
            if name and content:
                tags.setdefault(name.lower(), []).append(content)
    sites = _sites(root, nodes, tags, url)
    titles = titles_of(
        root,
        _text(article.get("headline")),
        _text(article.get("alternativeHeadline")),
        first_tag(tags, "og:title", "twitter:title"),
        sites,
    )
    news = _split(tags.get("news_keywords", []))
    candidates = (
        (first_iso(article.get("datePublished")), "json_ld"),
        (first_iso(*_all(tags, *_PUBLISHED)), "meta"),
        (first_iso(*_ends_of_titles(root, tags)), "meta"),
    )
    published, source = next(((day, source) for day, source in candidates if day), (None, None))
    described = _text(article.get("description"))
    descriptions = [*([described] if described else []), *_all(tags, *_DESCRIPTIONS)]
    return PageFacts(
        title=titles.chosen(),
        headline=_text(article.get("headline")),
        headings=frozenset(plain(text) for text in titles if text),
        published_at=published,
        date_source=source,
        modified_at=first_iso(
            article.get("dateModified"),
            *_all(tags, "article:modified_time", "og:updated_time", "datemodified", "last-modified"),
        ),
        authors=authors_of(root, article, tags, sites),
        news_keywords=news,
        keywords=news
        or _keywords(article.get("keywords"))
        or _split(tags.get("keywords", []))
        or _distinct(tags.get("article:tag", [])),
        description=next(iter(descriptions), None),
        descriptions=_distinct(descriptions),
        section=_text(article.get("articleSection")) or first_tag(tags, "article:section"),
        sitename=first_tag(tags, "og:site_name"),
        language=_language(root, article, tags),
    )


# ------------------------------------------------------------------------------------------- JSON-LD


def json_ld(root: Element) -> list[Node]:
    nodes: list[Node] = []
    for script in root.iter("script"):
        if (script.get("type") or "").partition(";")[0].strip().lower() == "application/ld+json":
            nodes += nodes_in("".join(script.itertext()), "@graph", "mainEntity", "mainEntityOfPage")
    return nodes


def article_of(nodes: list[Node]) -> Node:
    return next(
        (node for node in nodes if any(_ARTICLE.fullmatch(kind) for kind in strings(node.get("@type")))), {}
    )


def _text(value: Any) -> str | None:
    return next((clean for text in strings(value) if (clean := collapse_whitespace(text))), None)


# ------------------------------------------------------------------------------------------- meta tags


def first_tag(tags: dict[str, list[str]], *names: str) -> str | None:
    return next((tags[name][0] for name in names if name in tags), None)


def _all(tags: dict[str, list[str]], *names: str) -> list[str]:
    return [tags[name][0] for name in names if name in tags]


def _language(root: Element, article: Node, tags: dict[str, list[str]]) -> str | None:
    in_tags = first_tag(tags, "og:locale", "language")
    for text in (root.get("lang"), _text(article.get("inLanguage")), in_tags):
        if text and re.match(r"[A-Za-z]{2}(?:[-_]|$)", text):
            return text[:2].lower()
    return None


# ------------------------------------------------------------------------------------------- the rest


def _sites(root: Element, nodes: list[Node], tags: dict[str, list[str]], url: str) -> tuple[str, ...]:
    publishers = (strings(node.get("publisher")) for node in nodes)
    named = (strings(node.get("name")) for node in nodes if "WebSite" in strings(node.get("@type")))
    canonical = root.xpath("string(//link[@rel='canonical']/@href)")
    hosts = [_host(address) for address in (url, canonical, first_tag(tags, "og:url") or "")]
    site_tags = _all(tags, "og:site_name", "application-name", "apple-mobile-web-app-title", "twitter:site")
    return _distinct(
        [
            *(name for names in (*publishers, *named) for name in names),
            *(tag.removeprefix("@") for tag in site_tags if len(tag) <= _SITE),
            *(part for host in hosts for part in (host, host.rpartition(".")[0].rpartition(".")[2])),
        ]
    )


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def _keywords(value: Any) -> tuple[str, ...]:
    return _split([value]) if isinstance(value, str) else _distinct(strings(value))


def _split(texts: list[str]) -> tuple[str, ...]:
    return _distinct(part for text in texts for part in re.split(r"[,;]", text))


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for text in map(collapse_whitespace, texts):
        if text:
            found.setdefault(text.casefold(), text)
    return tuple(found.values())


def _ends_of_titles(root: Element, tags: dict[str, list[str]]) -> list[str]:
    titles = [
        *tags.get("og:title", []),
        *(collapse_whitespace("".join(node.itertext())) for node in root.iter("title")),
    ]
    ends = [parts[-1] for title in titles if len(parts := SEPARATOR.split(title)) > 1]
    return [end for end in ends if _DAY.fullmatch(end)]

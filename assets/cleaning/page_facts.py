"""What an article's page says of itself: JSON-LD, OpenGraph, meta tags."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from assets.cleaning.tree import Element
from warehouse.iso_dates import first_iso
from warehouse.json_ld import Node, nodes_in, strings

_ARTICLE = re.compile(r"(?:\w*Article|BlogPosting|LiveBlogPosting|SocialMediaPosting|Report)")
_INVISIBLE = re.compile("[\u00ad\u200b\u200c\u200d\u2060\ufeff]")
_SEPARATOR = re.compile(r"\s+(?:[|·•»]|[-–—])\s+")
_DAY = re.compile(r"\d{1,2}\.\s?\d{1,2}\.\s?\d{4}")
_PUBLISHED = (
    "article:published_time", "date", "datepublished", "dc.date", "dc.date.issued", "sailthru.date",
    "parsely-pub-date",
)  # fmt: skip


@dataclass(frozen=True)
class PageFacts:
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
    section: str | None = None
    sitename: str | None = None
    language: str | None = None


def page_facts(root: Element) -> PageFacts:
    """Read the facts from a parsed page: JSON-LD first, then OpenGraph, then plain meta tags."""
    article = article_of(json_ld(root))
    said = _meta(root)
    sitename = _first(said, "og:site_name")
    titles = _titles(root, article, said, sitename)
    news = _split(said.get("news_keywords", []))
    published, source = _published(article, said, root)
    return PageFacts(
        title=_title(titles),
        headline=_text(article.get("headline")),
        headings=frozenset(_plain(text) for text in titles.all()),
        published_at=published,
        date_source=source,
        modified_at=first_iso(
            article.get("dateModified"),
            *_all(said, "article:modified_time", "og:updated_time", "datemodified", "last-modified"),
        ),
        authors=_authors(article, said),
        news_keywords=news,
        keywords=news
        or _keywords(article.get("keywords"))
        or _split(said.get("keywords", []))
        or _distinct(said.get("article:tag", [])),
        description=_text(article.get("description"))
        or _first(said, "og:description", "description", "twitter:description"),
        section=_text(article.get("articleSection")) or _first(said, "article:section"),
        sitename=sitename,
        language=_language(root, article, said),
    )


# ------------------------------------------------------------------------------------------- JSON-LD


def json_ld(root: Element) -> list[Node]:
    """Return the nodes of all JSON-LD blocks, lists, `@graph` and main entities unfolded."""
    nodes: list[Node] = []
    for script in root.iter("script"):
        if (script.get("type") or "").partition(";")[0].strip().lower() == "application/ld+json":
            nodes += nodes_in("".join(script.itertext()), "@graph", "mainEntity", "mainEntityOfPage")
    return nodes


def article_of(nodes: list[Node]) -> Node:
    """Return the article that the page is about: the first that names itself one; `{}` if there is none."""
    return next(
        (node for node in nodes if any(_ARTICLE.fullmatch(kind) for kind in strings(node.get("@type")))), {}
    )


def _text(value: Any) -> str | None:
    return next((clean for text in strings(value) if (clean := squeezed(text))), None)


def squeezed(text: str) -> str:
    """Return a text without entities, soft hyphens and runs of white space."""
    plain = html.unescape(text) if "&" in text else text
    return " ".join(_INVISIBLE.sub("", plain).split())


# ------------------------------------------------------------------------------------------- meta tags


def _meta(root: Element) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {}
    for tag in root.iter("meta"):
        content = squeezed(tag.get("content") or "")
        for name in (tag.get("name"), tag.get("property"), tag.get("itemprop")):
            if name and content:
                said.setdefault(name.lower(), []).append(content)
    return said


def _first(said: dict[str, list[str]], *names: str) -> str | None:
    return next((said[name][0] for name in names if name in said), None)


def _all(said: dict[str, list[str]], *names: str) -> list[str]:
    return [said[name][0] for name in names if name in said]


def _language(root: Element, article: Node, said: dict[str, list[str]]) -> str | None:
    for text in (root.get("lang"), _text(article.get("inLanguage")), _first(said, "og:locale", "language")):
        if text and re.match(r"[A-Za-z]{2}(?:[-_]|$)", text):
            return text[:2].lower()
    return None


# ------------------------------------------------------------------------------------------- title


@dataclass(frozen=True)
class _Titles:
    """What the page calls the article, in each of the places where it does, without the names of the site."""

    headline: str | None
    shared: str | None  # OpenGraph's, for whoever links the page
    heading: str | None  # the first h1
    window: str | None  # the title element
    alternative: str | None

    def all(self) -> list[str]:
        return [
            text for text in (self.headline, self.shared, self.heading, self.window, self.alternative) if text
        ]


def _titles(root: Element, article: Node, said: dict[str, list[str]], sitename: str | None) -> _Titles:
    headline = _text(article.get("headline"))
    headings = [squeezed(" ".join(node.itertext())) for node in root.iter("h1")]
    heading = next(filter(None, headings), None)
    known = [text for text in (headline, heading) if text]
    shared, window = (
        _without_site(text, sitename, known) if text else None
        for text in (
            _first(said, "og:title", "twitter:title"),
            next((squeezed("".join(node.itertext())) for node in root.iter("title")), None),
        )
    )
    return _Titles(headline, shared, heading, window, _text(article.get("alternativeHeadline")))


def _without_site(title: str, sitename: str | None, known: list[str]) -> str:
    """Cut the parts of a title that name the site or its section: `Headline | Politics | DW | 28.04.2023`."""
    for text in known:
        if title != text and title.startswith(text) and _SEPARATOR.match(title[len(text) :]):
            return text
    cuts = [cut.start() for cut in _SEPARATOR.finditer(title)]
    for cut in cuts:
        rest = _SEPARATOR.sub("", title[cut:], count=1)
        if sitename and _plain(rest) == _plain(sitename):
            return title[:cut]
    pipes = [cut for cut in cuts if title[cut:].lstrip()[0] == "|"]
    return title[: pipes[0]] if pipes and pipes[0] > 15 else title


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text).casefold().strip()


def _title(titles: _Titles) -> str | None:
    """Choose among the page's titles: JSON-LD's headline, with two exceptions.

    OpenGraph's title wins where it is the headline without a kicker before it, or with better typography; and
    where heading, window and OpenGraph agree on another title than the headline, theirs wins, unless the page
    names an alternative headline and so has two titles on purpose.
    """
    headline, shared = titles.headline, titles.shared
    if not headline:
        return shared or titles.heading or titles.window
    if shared and (_plain(shared) == _plain(headline) or _ends_with(headline, shared)):
        return shared
    others = {_plain(text or "") for text in (shared, titles.heading, titles.window)}
    if shared and len(others) == 1 and not titles.alternative:
        return shared
    return headline


def _ends_with(long: str, short: str) -> bool:
    return len(short) >= 20 and long.endswith(short) and not long[: -len(short)][-1:].isalnum()


# ------------------------------------------------------------------------------------------- the rest


def _authors(article: Node, said: dict[str, list[str]]) -> tuple[str, ...]:
    people = strings(article.get("author") or article.get("creator"))
    for names in (people, said.get("author", []), said.get("article:author", []), said.get("dc.creator", [])):
        found = _distinct(
            squeezed(name).removeprefix("Von ").removeprefix("By ") for name in names if "://" not in name
        )
        if found:
            return found
    return ()


def _keywords(value: Any) -> tuple[str, ...]:
    return _split([value]) if isinstance(value, str) else _distinct(strings(value))


def _split(texts: list[str]) -> tuple[str, ...]:
    return _distinct(part for text in texts for part in re.split(r"[,;]", text))


def _distinct(texts: Iterator[str] | list[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for text in map(squeezed, texts):
        if text:
            found.setdefault(text.casefold(), text)
    return tuple(found.values())


def _published(article: Node, said: dict[str, list[str]], root: Element) -> tuple[str | None, str | None]:
    """Return when the page says that it was published, and which of its statements says so."""
    candidates = (
        (first_iso(article.get("datePublished")), "json_ld"),
        (first_iso(*_all(said, *_PUBLISHED)), "meta"),
        (first_iso(*_ends_of_titles(root, said)), "meta"),
    )
    return next(((day, source) for day, source in candidates if day), (None, None))


def _ends_of_titles(root: Element, said: dict[str, list[str]]) -> list[str]:
    """Return what stands last in the page's titles, where that is a day: `Headline | DW | 28.04.2023`."""
    titles = [*said.get("og:title", []), *(squeezed("".join(node.itertext())) for node in root.iter("title"))]
    ends = [parts[-1] for title in titles if len(parts := _SEPARATOR.split(title)) > 1]
    return [end for end in ends if _DAY.fullmatch(end)]

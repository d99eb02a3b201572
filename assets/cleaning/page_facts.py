"""Metadata of an article from its page: JSON-LD, OpenGraph, meta tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from rag_assay.assets.cleaning.page_authors import authors_of
from rag_assay.assets.cleaning.page_titles import SEPARATOR, plain, titles_of
from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace
from rag_assay.warehouse.iso_dates import first_iso
from rag_assay.warehouse.json_ld import Node, nodes_in, strings

_ARTICLE = re.compile(r"(?:\w*Article|BlogPosting|LiveBlogPosting|SocialMediaPosting|Report)")
_SITE = 40  # characters that the name of a site has at most; some pages write their title in its place
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
    descriptions: tuple[str, ...] = ()  # all of the statements
    section: str | None = None
    sitename: str | None = None
    language: str | None = None


def page_facts(root: Element, url: str = "") -> PageFacts:
    """Read the facts from a parsed page: JSON-LD first, then OpenGraph, then plain meta tags."""
    nodes = json_ld(root)
    article = article_of(nodes)
    tags = _meta(root)
    sites = _sites(root, nodes, tags, url)
    titles = titles_of(
        root,
        _text(article.get("headline")),
        _text(article.get("alternativeHeadline")),
        _first(tags, "og:title", "twitter:title"),
        sites,
    )
    news = _split(tags.get("news_keywords", []))
    published, source = _published(article, tags, root)
    return PageFacts(
        title=titles.chosen(),
        headline=_text(article.get("headline")),
        headings=frozenset(plain(text) for text in titles.all()),
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
        description=_text(article.get("description"))
        or _first(tags, "og:description", "description", "twitter:description"),
        descriptions=_distinct(
            filter(
                None,
                (
                    _text(article.get("description")),
                    *_all(tags, "og:description", "description", "twitter:description"),
                ),
            )
        ),
        section=_text(article.get("articleSection")) or _first(tags, "article:section"),
        sitename=_first(tags, "og:site_name"),
        language=_language(root, article, tags),
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
    return next((clean for text in strings(value) if (clean := collapse_whitespace(text))), None)


# ------------------------------------------------------------------------------------------- meta tags


def _meta(root: Element) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for tag in root.iter("meta"):
        content = collapse_whitespace(tag.get("content") or "")
        for name in (tag.get("name"), tag.get("property"), tag.get("itemprop")):
            if name and content:
                tags.setdefault(name.lower(), []).append(content)
    return tags


def _first(tags: dict[str, list[str]], *names: str) -> str | None:
    return next((tags[name][0] for name in names if name in tags), None)


def _all(tags: dict[str, list[str]], *names: str) -> list[str]:
    return [tags[name][0] for name in names if name in tags]


def _language(root: Element, article: Node, tags: dict[str, list[str]]) -> str | None:
    for text in (root.get("lang"), _text(article.get("inLanguage")), _first(tags, "og:locale", "language")):
        if text and re.match(r"[A-Za-z]{2}(?:[-_]|$)", text):
            return text[:2].lower()
    return None


# ------------------------------------------------------------------------------------------- the rest


def _sites(root: Element, nodes: list[Node], tags: dict[str, list[str]], url: str) -> tuple[str, ...]:
    """Return the names by which the page calls its site, and its host's."""
    publishers = (strings(node.get("publisher")) for node in nodes)
    named = (strings(node.get("name")) for node in nodes if "WebSite" in strings(node.get("@type")))
    canonical = root.xpath("string(//link[@rel='canonical']/@href)")
    hosts = [_host(address) for address in (url, canonical, _first(tags, "og:url") or "")]
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


def _distinct(texts: Iterator[str] | list[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for text in map(collapse_whitespace, texts):
        if text:
            found.setdefault(text.casefold(), text)
    return tuple(found.values())


def _published(article: Node, tags: dict[str, list[str]], root: Element) -> tuple[str | None, str | None]:
    """Return when the page says that it was published, and which of its statements says so."""
    candidates = (
        (first_iso(article.get("datePublished")), "json_ld"),
        (first_iso(*_all(tags, *_PUBLISHED)), "meta"),
        (first_iso(*_ends_of_titles(root, tags)), "meta"),
    )
    return next(((day, source) for day, source in candidates if day), (None, None))


def _ends_of_titles(root: Element, tags: dict[str, list[str]]) -> list[str]:
    """Return what stands last in the page's titles, where that is a day: `Headline | DW | 28.04.2023`."""
    titles = [
        *tags.get("og:title", []),
        *(collapse_whitespace("".join(node.itertext())) for node in root.iter("title")),
    ]
    ends = [parts[-1] for title in titles if len(parts := SEPARATOR.split(title)) > 1]
    return [end for end in ends if _DAY.fullmatch(end)]

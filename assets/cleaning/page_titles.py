"""The title of an article without the name of its site."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace

SEPARATOR = re.compile(r"\s+(?:[|·•»«›‹<>~/]|::?|[-–—])\s+")
_LOOSE = re.compile(rf"{SEPARATOR.pattern}|:\s+|\s*\|\s*")  # where a title that is known tells what they part


@dataclass(frozen=True)
class Titles:
    """What the page calls the article, in each of the places where it does, without the names of the site."""

    headline: str | None
    shared: str | None  # OpenGraph's, for whoever links the page
    heading: str | None  # an h1
    window: str | None  # the title element
    alternative: str | None

    def all(self) -> list[str]:
        """Return those that there are."""
        return [
            text for text in (self.headline, self.shared, self.heading, self.window, self.alternative) if text
        ]

    def chosen(self) -> str | None:
        """Choose among the titles: JSON-LD's headline, with two exceptions.

        OpenGraph's title wins where it is the headline without a kicker before it, or with better typography;
        and where heading, window and OpenGraph agree on another title than the headline, theirs wins, unless
        the page names an alternative headline and so has two titles on purpose.
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
    """Return the titles of a page; ``sites`` are the names of its site and of who publishes it."""
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
    """Cut the parts of a title that name the site or its section; None where it names nothing else.

    Args:
        title: as it is written.
        sites: names of the site, by `plain`.
        known: what else on the page is a title; where ``title`` begins with one, it is all of it.

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
    """Return the words of a text in small letters, one space between them."""
    return re.sub(r"\W+", " ", text).casefold().strip()


def _ends_with(long: str, short: str) -> bool:
    return len(short) >= 20 and long.endswith(short) and not long[: -len(short)][-1:].isalnum()

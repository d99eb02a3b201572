"""The standfirst: the lines between headline and text that say what an article is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace

_BLOCKS = ("p", "div", "section", "header", "span", "h2", "h3", "h4", "strong", "em", "li")
# What of a page is beside its article, or leads to another one.
_BESIDE = frozenset({"a", "dialog", "figcaption", "figure", "footer", "form", "nav", "noscript", "template"})
_LEAST = 50  # word characters of a standfirst
_DATELINE = 30  # word characters that may stand before it, as in `Berlin.`
_SAME = 40  # word characters by which two texts are taken for the same


def shown_standfirst(root: Element, descriptions: Sequence[str], text: str) -> str | None:
    """Return the standfirst as the page shows it, above its text; None where it shows none there.

    A description that stands below the text's beginning, in a caption, a link, a menu, a footer or out of
    sight belongs to something else.

    Args:
        root: the page.
        descriptions: what the page says of the article in its head.
        text: the article's text as it was extracted.
    """
    wanted = [key for key in map(key_of, descriptions) if len(key) >= _LEAST]
    opening = next((key for key in map(key_of, text.split("\n")) if len(key) >= _SAME), "")[:_SAME]
    if not wanted:
        return None
    longest = 4 * max(map(len, wanted))
    found = None
    for node in root.iter(*_BLOCKS):
        shown = collapse_whitespace(" ".join(_beginning(node, longest)))
        key = key_of(shown)
        if found is not None and found[0] not in node.iterancestors():
            break
        if opening and key.startswith(opening):
            break
        if len(key) < longest and any(_is(key, want) for want in wanted) and _is_of_the_article(node):
            found = (node, shown)
    return found[1] if found else None


def key_of(text: str) -> str:
    """Return the word characters of a text, in small letters."""
    return re.sub(r"\W+", "", text).casefold()


def _beginning(node: Element, length: int) -> Iterator[str]:
    """Yield the text of an element, as far as it takes to see that it is too long."""
    read = 0
    for text in node.itertext():
        yield text
        read += len(text.strip())
        if read > 2 * length:
            return


def _is(key: str, wanted: str) -> bool:
    """Return whether a text is the one wanted: it may go on where that was cut, and have a dateline."""
    start = key.find(wanted[:_SAME])
    return 0 <= start <= _DATELINE and len(key) <= 3 * len(wanted)


def _is_of_the_article(node: Element) -> bool:
    for above in (node, *node.iterancestors()):
        hidden = above.get("hidden") is not None or above.get("aria-hidden") == "true"
        if above.tag in _BESIDE or hidden or "display:none" in (above.get("style") or "").replace(" ", ""):
            return False
    return True

"""Refuses pages that hold little more than menus, banners and footers."""

from __future__ import annotations

from typing import Any

from rag_assay.assets.cleaning.draft import MIN_WORDS, UnusablePage

BYLINE = 20  # words: what a header says beyond its headline is a byline below this, and text from there on
_FURNITURE = frozenset(
    "address aside button footer h1 nav noscript script style template time".split()  # noqa: SIM905 -- readable
)
_FACTS = frozenset({"link", "meta"})


def refuse_chrome(html: str) -> None:
    """Refuse a page whose own element for its content holds next to nothing.

    From such a page trafilatura takes what stands around the content (site title, cookie notice, footer). A
    page says where its content is by one `<main>`, and an article by one `<article>`; where there are several
    or none, or where it holds `<meta>` alone, nothing is concluded.

    Raises:
        Unusable: that element has fewer than `MIN_WORDS` words.
    """
    from trafilatura import load_html

    tree: Any = load_html(html)
    if tree is None:
        return
    places = (tree.findall(f".//{tag}") for tag in ("main", "article"))
    counts = [_words(found[0]) for found in places if len(found) == 1 and not _holds_facts(found[0])]
    if counts and max(counts) < MIN_WORDS:
        raise UnusablePage(f"too short: {max(counts)} words in the page's own content")


def _holds_facts(element: Any) -> bool:
    """Return whether an element holds statements for machines alone: what they are about is elsewhere."""
    inside = [child.tag for child in element.iter() if child is not element and isinstance(child.tag, str)]
    return bool(inside) and _FACTS.issuperset(inside) and not element.text_content().strip()


def _words(element: Any) -> int:
    """Count the words that a reader of the element sees, headline, date, byline and navigation aside."""
    count = len((element.text or "").split())
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else "script"  # a comment
        inside = 0 if tag in _FURNITURE else _words(child)
        count += 0 if tag == "header" and inside < BYLINE else inside
        count += len((child.tail or "").split())
    return count

"""Counts what a page holds and what of it a document keeps, by kind of block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag_assay.assets.cleaning.blocks import PageBlock, words_of
from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace

BESIDE = (  # each attribute is read once: the condition is tried at every element
    "self::nav or self::footer or self::header[not(ancestor::main)] or self::aside or self::form or "
    "@role[.='navigation' or .='search' or .='contentinfo' or .='dialog'] or @hidden or "
    "@class[contains(., 'sidebar') or contains(., 'nav') or contains(., 'toc') or contains(., 'footer') or "
    "contains(., 'related') or contains(., 'breadcrumb')] or "
    "@id[contains(., 'toc') or contains(., 'footer')] or @style[contains(., 'display:none')]"
)
"""XPath condition of an element outside the main text: navigation, footer and the like."""
KINDS = ("headings", "items", "definitions", "rows", "code", "images", "charts", "formulas")
_OF_BLOCKS = {
    "heading": "headings", "item": "items", "term": "definitions", "definition": "definitions",
    "row": "rows", "code": "code",
}  # fmt: skip
_FIRST = 8  # a document keeps a block if it has so many of its first words in a row
_LINKED = 0.8  # blocks with this share of their words in links are navigation
MANY = 3  # pages with fewer headings are not checked
LEAST = 0.5  # share of a page's headings that a document must keep

Fidelity = dict[str, list[int]]
"""Kind -> how many a page holds, and how many of these its document keeps."""


def page_fidelity(
    part: Element, blocks: Sequence[PageBlock], text: str, sections: Iterable[Mapping[str, Any]]
) -> Fidelity:
    """Compare a page, or the part of it that may hold the text, with its document.

    Not counted: `BESIDE`, links, the first heading (the title), and pictures without a description.
    """
    beside = set(part.xpath(f"//*[{BESIDE}]"))
    words = f" {' '.join(words_of(text))} "
    headings = Counter(" ".join(words_of(section["heading"])) for section in sections)
    came: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for block in blocks:
        kind = _OF_BLOCKS.get(block.kind)
        if kind is None or not block.words or any(node in beside for node in block.path):
            continue
        if kind != "definitions" and block.linked >= _LINKED * len(block.words):
            continue
        if block.level == 1 and not came["headings"]:
            continue
        came[kind] += 1
        if kind == "headings":
            kept[kind] += headings[" ".join(block.words)] > 0
        else:
            kept[kind] += f" {' '.join(block.words[:_FIRST])} " in words
    for picture in part.iter("img"):
        shown = collapse_whitespace(str(picture.get("alt") or ""))
        around = list(picture.iterancestors())
        if len(shown.split()) > 1 and not any(node.tag == "a" or node in beside for node in around):
            came["images"] += 1
            kept["images"] += shown in text
    for formula in part.iter("math"):
        if not any(node in beside for node in formula.iterancestors()):
            came["formulas"] += 1
    kept["formulas"] = min(came["formulas"], text.count("$") // 2)
    return {kind: [came[kind], kept[kind]] for kind in KINDS if came[kind]}


def add(total: dict[str, list[int]], one: Mapping[str, Sequence[int]]) -> None:
    for kind, (came, kept) in one.items():
        found = total.setdefault(kind, [0, 0])
        found[0] += came
        found[1] += kept


def has_lost_headings(one: Mapping[str, Sequence[int]]) -> bool:
    """Return whether a document lost most headings of its page.

    >>> has_lost_headings({"headings": [9, 1]}), has_lost_headings({"headings": [2, 0]})
    (True, False)
    """
    came, kept = one.get("headings", (0, 0))
    return came >= MANY and kept < LEAST * came

"""Counts what a page holds and what of it a document keeps, by kind of block."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag_assay.assets.cleaning.blocks import PageBlock, within, words_of
from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace

_BESIDE_TAGS = frozenset({"nav", "footer", "aside", "form"})
_BESIDE_ROLES = frozenset({"navigation", "search", "contentinfo", "dialog"})
_BESIDE_CLASS = re.compile(  # whole parts: "withsidebar" lays out the text, and "protocol" is its topic
    r"(?:^|[\s_-])(?:(?:sphinx)?sidebar|side-?nav|nav(?:bar|igation|header|footer|path|row|tree|panel|links?)?"
    r"|(?:local|page)?toc(?:tree)?|footer|related|breadcrumbs?)(?:$|[\s_-])"
)
_BESIDE_ID = re.compile(r"(?:^|[\s_-])(?:toc|footer)(?:$|[\s_-])")
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


def is_beside(node: Element) -> bool:
    """Return whether an element is outside the main text: navigation, footer and the like."""
    return (
        node.tag in _BESIDE_TAGS
        or node.get("role") in _BESIDE_ROLES
        or node.get("hidden") is not None
        or "display:none" in (node.get("style") or "")
        or (node.tag == "header" and next(node.iterancestors("main"), None) is None)
        or (
            (_BESIDE_CLASS.search(node.get("class") or "") or _BESIDE_ID.search(node.get("id") or ""))
            is not None
            and not _holds_main(node)
        )
    )


def _holds_main(node: Element) -> bool:
    return bool(
        node.xpath("boolean(self::html or self::body or descendant-or-self::*[self::main or @role='main'])")
    )


def page_fidelity(
    part: Element, blocks: Sequence[PageBlock], text: str, sections: Iterable[Mapping[str, Any]]
) -> Fidelity:
    """Compare a page, or the part of it that may hold the text, with its document.

    Not counted: what is beside the main text, links, the first heading (the title), and pictures without a
    description.
    """
    is_within = within(is_beside)
    words = f" {' '.join(words_of(text))} "
    headings = Counter(" ".join(words_of(section["heading"])) for section in sections)
    came: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    for block in blocks:
        kind = _OF_BLOCKS.get(block.kind)
        if kind is None or not block.words or is_within(block.path):
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
        around = tuple(picture.iterancestors())
        if len(shown.split()) > 1 and not is_within(around) and not any(node.tag == "a" for node in around):
            came["images"] += 1
            kept["images"] += shown in text
    for formula in part.iter("math"):
        if not is_within(tuple(formula.iterancestors())):
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

"""Counts what a page holds and what of it a document keeps, by kind of block."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_assay.assets.cleaning.blocks import PageBlock, within, words_of
from rag_assay.assets.cleaning.tree import Element
from rag_assay.assets.cleaning.unicode import collapse_whitespace

_BESIDE_TAGS = frozenset({"nav", "footer", "aside", "form"})
_BESIDE_ROLES = frozenset({"navigation", "search", "contentinfo", "dialog", "menu", "menubar", "toolbar"})
_BESIDE_CLASS = re.compile(  # whole parts: "withsidebar" lays out the text, and "protocol" is its topic
    r"(?:^|[\s_-])(?:(?:sphinx)?sidebar|side-?nav|nav(?:bar|igation|header|footer|path|row|tree|panel|links?)?"
    r"|(?:local|page)?toc(?:tree)?|footer|related|breadcrumbs?|menu-?bar|popup)(?:$|[\s_-])"
)
_BESIDE_ID = re.compile(r"(?:^|[\s_-])(?:toc|footer|popup)(?:$|[\s_-])")
KINDS = ("headings", "items", "definitions", "rows", "code", "images", "charts", "formulas", "links")
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


def is_navigation(block: PageBlock) -> bool:
    return block.linked >= _LINKED * len(block.words)


def _holds_main(node: Element) -> bool:
    return bool(
        node.xpath("boolean(self::html or self::body or descendant-or-self::*[self::main or @role='main'])")
    )


@dataclass(frozen=True)
class BlockOutcome:
    """A block of a page. counted: as which of `KINDS`, "" for none; is_kept: the document holds it"""

    kind: str
    text: str
    counted: str
    is_kept: bool


@dataclass(frozen=True)
class PageComparison:
    """A page, or the part of it that may hold the text, beside its document.

    blocks: of the part; shown: of the whole page
    Not counted: what is beside the main text, links, the first heading (the title), and pictures without a
    description.
    """

    part: Element
    blocks: Sequence[PageBlock]
    text: str
    sections: Sequence[Mapping[str, Any]]
    shown: Sequence[PageBlock] = ()

    def counts(self) -> Fidelity:
        came: Counter[str] = Counter()
        kept: Counter[str] = Counter()
        for _, kind, is_kept in self._counted():
            came[kind] += 1
            kept[kind] += is_kept
        for is_kept in self._pictures().values():
            came["images"] += 1
            kept["images"] += is_kept
        for formula in self.part.iter("math"):
            if not self._is_beside(tuple(formula.iterancestors())):
                came["formulas"] += 1
        kept["formulas"] = min(came["formulas"], self.text.count("$") // 2)
        return {kind: [came[kind], kept[kind]] for kind in KINDS if came[kind]}

    def outcomes(self) -> Iterator[BlockOutcome]:
        """Yield the blocks of the whole page in its order, then its pictures."""
        counted = {id(block): (kind, is_kept) for block, kind, is_kept in self._counted()}
        for block in self.shown or self.blocks:
            kind, is_kept = counted.get(id(block), ("", self._holds(block)))
            yield BlockOutcome(block.kind, block.mark + block.text, kind, is_kept)
        for picture, is_kept in self._pictures().items():
            yield BlockOutcome("image", _description(picture), "images", is_kept)

    def content(self) -> list[PageBlock]:
        return [block for block in self.blocks if not self._is_beside(block.path)]

    @cached_property
    def _is_beside(self) -> Callable[[tuple[Element, ...]], bool]:
        return within(is_beside)

    @cached_property
    def _words(self) -> str:
        return f" {' '.join(words_of(self.text))} "

    def _holds(self, block: PageBlock) -> bool:
        return f" {' '.join(block.words[:_FIRST])} " in self._words

    def _counted(self) -> Iterator[tuple[PageBlock, str, bool]]:
        headings = {" ".join(words_of(section["heading"])) for section in self.sections}
        is_title_known = False
        for block in self.blocks:
            kind = _OF_BLOCKS.get(block.kind)
            if kind is None or not block.words or self._is_beside(block.path):
                continue
            if kind != "definitions" and is_navigation(block):
                continue
            if block.level == 1 and not is_title_known:
                continue
            is_title_known |= kind == "headings"
            yield block, kind, " ".join(block.words) in headings if kind == "headings" else self._holds(block)

    def _pictures(self) -> dict[Element, bool]:
        found = {}
        for picture in self.part.iter("img"):
            around = tuple(picture.iterancestors())
            shown = _description(picture)
            is_linked = any(node.tag == "a" for node in around)
            if len(shown.split()) > 1 and not is_linked and not self._is_beside(around):
                found[picture] = shown in self.text
        return found


def _description(picture: Element) -> str:
    return collapse_whitespace(str(picture.get("alt") or ""))


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

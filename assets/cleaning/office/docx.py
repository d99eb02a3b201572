"""Word documents: headings by their styles as sections, lists, tables and notes in their places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft
from rag_assay.assets.cleaning.office.office_facts import check_package, with_facts
from rag_assay.assets.cleaning.office.word_xml import Block, W, blocks_of
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.warehouse.extras import require

_HEADING = re.compile(r"heading (\d)", re.I)
_NOTES = {"/footnotes": "footnote", "/endnotes": "endnote"}


def clean_docx(body: bytes) -> DocumentDraft:
    """Extract the text of a Word document; headings, by style or outline level, begin sections.

    Items of lists begin with "- ", cells of a table stand between " | ", a note follows the paragraph that
    refers to it. Deleted text, headers and footers are left out; insertions count.

    Raises:
        Unusable: encrypted, damaged, a bomb, or without text.
    """
    check_package(body, ".docx")
    require("docx", "reading DOCX files")
    import docx

    document = docx.Document(BytesIO(body))
    levels, titles, items = _styles(document)
    notes = _notes(document)
    outline, title, deepest = OutlineBuilder(), None, _Levels()
    for block in blocks_of(document.element.body):
        if text := tidy(block.text):
            level = _level(block, levels)
            if level is None:
                outline.add(f"- {text}" if block.is_item or block.style in items else text)
            else:
                outline.begin(" ".join(text.split()), deepest.closed_up(level))
            if title is None and block.style in titles:
                title = " ".join(text.split())
        for note in block.notes:
            if text := notes.get(note, ""):
                outline.add(text)
    first = title or (outline.sections[0]["heading"] if outline.sections else None)
    return with_facts(outline, document.core_properties, first)


class _Levels:
    """Closes levels up, as headings come: one that is two below the last one is one below it."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def closed_up(self, level: int) -> int:
        """Return the level of the next heading, from 1."""
        self._open = [above for above in self._open if above < level]
        self._open.append(level)
        return len(self._open)


def _level(block: Block, levels: Mapping[str, int]) -> int | None:
    if block.level is not None:
        return block.level + 1 if block.level < 9 else None
    return levels.get(block.style or "")


def _styles(document: Any) -> tuple[dict[str, int], set[str], set[str]]:
    """Return the levels of headings by the ids of their styles, and the ids of titles and of items of lists.

    A style that is based on a heading is one; styles may be based on each other in a circle.
    """
    levels: dict[str, int] = {}
    titles: set[str] = set()
    items: set[str] = set()
    for style in document.styles:
        at, seen = style, set()
        while at is not None and at.style_id not in seen:
            seen.add(at.style_id)
            if found := _HEADING.fullmatch(at.name or ""):
                levels[style.style_id] = int(found[1])
                break
            if (at.name or "").lower() == "title":
                titles.add(style.style_id)
                break
            if at.element.find(f"{W}pPr/{W}numPr") is not None:
                items.add(style.style_id)
            at = getattr(at, "base_style", None)
    return levels, titles, items - levels.keys()


def _notes(document: Any) -> dict[tuple[str, str], str]:
    """Return footnotes and endnotes by kind and id."""
    from lxml import etree

    found: dict[tuple[str, str], str] = {}
    for relation in document.part.rels.values():
        kind = next((kind for end, kind in _NOTES.items() if relation.reltype.endswith(end)), None)
        if kind is None or relation.is_external:
            continue
        parser = etree.XMLParser(resolve_entities=False, no_network=True)
        for note in etree.fromstring(relation.target_part.blob, parser).iter(f"{W}{kind}"):
            text = " ".join(tidy(block.text) for block in blocks_of(note) if block.text)
            found[kind, str(note.get(f"{W}id"))] = " ".join(text.split())
    return found

"""Text of Word's XML: paragraphs, tables and notes in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_LEFT_OUT = frozenset({f"{W}del", f"{W}moveFrom", f"{W}instrText", f"{W}delText", _FALLBACK})
_BOX = f"{W}txbxContent"
_SIGNS = {f"{W}tab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-"}
DEEPEST = 100  # tables in tables, and whatever else holds itself

Element = Any  # lxml's elements come untyped


class Block(NamedTuple):
    """A paragraph, or a row of a table.

    style: id of its style; level: the outline level that it says itself, from 0; notes: ids of its notes
    """

    text: str
    style: str | None = None
    level: int | None = None
    is_item: bool = False
    notes: tuple[tuple[str, str], ...] = ()


def blocks_of(parent: Element, depth: int = 0) -> Iterator[Block]:
    """Yield what stands in a body, a cell, a text box or a note; what was deleted is left out."""
    if depth > DEEPEST:
        return
    for element in parent:
        if element.tag == f"{W}p":
            yield _paragraph(element)
            for box in element.iter(_BOX):
                if not _is_left_out(box):
                    yield from blocks_of(box, depth + 1)
        elif element.tag == f"{W}tbl":
            yield from _rows(element, depth)
        elif isinstance(element.tag, str) and element.tag not in _LEFT_OUT:
            yield from blocks_of(element, depth + 1)  # content controls, insertions, custom XML


def _paragraph(element: Element) -> Block:
    properties = element.find(f"{W}pPr")
    style = level = None
    is_item = False
    if properties is not None:
        style = _value(properties.find(f"{W}pStyle"))
        level = _value(properties.find(f"{W}outlineLvl"))
        is_item = properties.find(f"{W}numPr") is not None
    text = "".join(_pieces(element)).strip()
    notes = tuple(
        (kind, str(node.get(f"{W}id")))
        for kind in ("footnote", "endnote")
        for node in element.iter(f"{W}{kind}Reference")
    )
    return Block(text, style, int(level) if level and level.isdecimal() else None, is_item, notes)


def _pieces(element: Element) -> Iterator[str]:
    for node in element:
        if node.tag in _LEFT_OUT or node.tag in (_BOX, f"{W}pPr"):
            continue
        if node.tag == f"{W}t":
            yield node.text or ""
        elif node.tag in _SIGNS:
            yield _SIGNS[node.tag]
        else:
            yield from _pieces(node)


def _rows(table: Element, depth: int) -> Iterator[Block]:
    for row in table.iter(f"{W}tr"):
        if next(row.iterancestors(f"{W}tbl")) is not table:
            continue  # of a table within a cell, which is read with it
        cells = [
            " ".join(" ".join(block.text.split()) for block in blocks_of(cell, depth + 1) if block.text)
            for cell in row.iter(f"{W}tc")
            if next(cell.iterancestors(f"{W}tr")) is row
        ]
        if any(cells):
            yield Block(" | ".join(cells))


def _is_left_out(element: Element) -> bool:
    return any(above.tag in _LEFT_OUT for above in element.iterancestors())


def _value(element: Element) -> str | None:
    return None if element is None else element.get(f"{W}val")

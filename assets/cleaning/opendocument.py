"""OpenDocument files: texts, spreadsheets and presentations (ODF 1.2 and 1.3, ISO/IEC 26300)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

from rag_assay.assets.cleaning.draft import CellLimit, DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.office import check_package, with_facts
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.tree import Element, parse_xml
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.warehouse.iso_dates import iso

_NS = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW = f"{{{_NS}text:1.0}}", f"{{{_NS}table:1.0}}", f"{{{_NS}drawing:1.0}}"
_OFFICE, _SHOW = f"{{{_NS}office:1.0}}", f"{{{_NS}presentation:1.0}}"
_SIGNS = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n", f"{_TEXT}soft-page-break": ""}
# Not part of the text: deleted text, comments of reviewers, forms, scripts, page fields.
_LEFT_OUT = {f"{_TEXT}{name}" for name in ("tracked-changes", "sequence-decls", "note-citation", "ruby-text")}
_LEFT_OUT |= {f"{_OFFICE}annotation", f"{_OFFICE}forms", f"{_OFFICE}event-listeners", f"{_TABLE}shapes"}
_DEEPEST = 60  # levels of nested lists, tables and frames
_REPEATED = 64  # copies of a cell or row with a repeat count that are written
MAX_CELLS = 2_000_000
MAX_SIGNS = 50_000_000  # characters of cells; nested tables count again


def clean_odt(body: bytes) -> DocumentDraft:
    """Extract the text of a document: headings begin sections, items of lists begin with "- ", cells are
    separated by " | ", notes follow their paragraph; deleted text and comments are left out.
    """
    content, properties = _read(body, ".odt")
    outline, open_levels, title = OutlineBuilder(), list[int](), None
    for level, text, style in _blocks(content, _CellLimits()):
        if level is None:
            outline.add(text)
            title = title or (text if style == "Title" else None)
        else:
            open_levels = [*(above for above in open_levels if above < level), level]
            outline.begin(" ".join(text.split()), len(open_levels))
    return with_facts(outline, properties, title or outline.first_heading)


def clean_ods(body: bytes) -> DocumentDraft:
    """Extract the text of a spreadsheet: one section per sheet, one line per row, as XLSX."""
    content, properties = _read(body, ".ods")
    outline, budget = OutlineBuilder(), _CellLimits()
    sheets = content.findall(f"{_TABLE}table")
    for sheet in sheets:
        if lines := list(_rows(sheet, 0, budget)):
            outline.begin(tidy(sheet.get(f"{_TABLE}name") or "") or "Sheet", 1)
            outline.add("\n".join(lines))
    return with_facts(outline, properties, outline.first_heading, sheets=len(sheets))


def clean_odp(body: bytes) -> DocumentDraft:
    """Extract the text of a presentation, one section per slide: title, other frames, speaker's notes."""
    content, properties = _read(body, ".odp")
    outline, budget, first = OutlineBuilder(), _CellLimits(), None
    slides = content.findall(f"{_DRAW}page")
    for number, slide in enumerate(slides, 1):
        top = next((one for one in slide if one.get(f"{_SHOW}class") == "title"), None)
        title = (
            " ".join(" ".join(text for _, text, _ in _blocks(top, budget)).split()) if top is not None else ""
        )
        others = [
            text
            for shape in slide
            if shape is not top and shape.tag != f"{_SHOW}notes"
            for _, text, _ in _blocks(shape, budget)
        ]
        notes = [text for one in slide.findall(f"{_SHOW}notes") for _, text, _ in _blocks(one, budget)]
        if title or others or notes:
            outline.begin(title or f"Slide {number}", 1)
            first = first or title
        for text in [*others, *notes]:
            outline.add(text)
    return with_facts(outline, properties, first or None, slides=len(slides))


class _CellLimits:
    """Limits cells and their characters: repeat counts let a small file give any number of them."""

    def __init__(self) -> None:
        self.cells = CellLimit(MAX_CELLS, "cells")
        self.signs = CellLimit(MAX_SIGNS, "characters in cells")

    def take(self, cells: int, signs: int) -> None:
        self.cells.take(cells)
        self.signs.take(signs)


# -------------------------------------------------------------------------------------------- the package


def _read(body: bytes, suffix: str) -> tuple[Element, Any]:
    check_package(body, suffix)
    with ZipFile(BytesIO(body)) as archive:
        names = archive.namelist()
        if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
            raise UnusablePage(f"{suffix[1:].upper()}: encrypted: it asks for a password")
        root = parse_xml(archive.read("content.xml"))
        properties = _properties(parse_xml(archive.read("meta.xml")) if "meta.xml" in names else None)
    kind = {".odt": "text", ".ods": "spreadsheet", ".odp": "presentation"}[suffix]
    content = root.find(f"{_OFFICE}body/{_OFFICE}{kind}")
    if content is None:
        raise UnusablePage(f"{suffix[1:].upper()}: it holds no {kind}")
    return content, properties


def _properties(meta: Element | None) -> SimpleNamespace:
    def said(name: str) -> list[str]:
        found = meta.xpath("//*[local-name() = $name]", name=name) if meta is not None else []
        return [text for node in found if (text := tidy("".join(node.itertext())))]

    def first(*names: str) -> str | None:
        return next((text for name in names for text in said(name)), None)

    return SimpleNamespace(
        title=first("title"),
        author=first("initial-creator", "creator"),
        subject=first("subject", "description"),
        keywords=", ".join(said("keyword")),
        language=first("language"),
        created=_time(first("creation-date")),
        modified=_time(first("date")),
    )


def _time(text: str | None) -> Any:
    from datetime import datetime

    try:
        return datetime.fromisoformat((text or "")[:19]) if iso((text or "")[:10]) else None
    except ValueError:
        return None


# -------------------------------------------------------------------------------------------- the text

Found = tuple[int | None, str, str]


def _blocks(node: Element, budget: _CellLimits, depth: int = 0, marker: str = "") -> Iterator[Found]:
    """Yield level (of a heading), text and style of each block below a node."""
    if depth > _DEEPEST:
        return
    for child in node:
        tag = child.tag
        if not isinstance(tag, str) or tag in _LEFT_OUT:
            continue
        if tag in {f"{_TEXT}p", f"{_TEXT}h"}:
            yield from _paragraph(child, budget, depth, marker)
            marker = " " * len(marker)
        elif tag == f"{_TEXT}list":
            inner = f"{' ' * len(marker)}- "
            for item in child.iterchildren(f"{_TEXT}list-item", f"{_TEXT}list-header"):
                yield from _blocks(item, budget, depth + 1, inner)
        elif tag == f"{_TABLE}table":
            if rows := list(_rows(child, depth, budget)):
                yield None, "\n".join(rows), ""
        else:
            yield from _blocks(child, budget, depth + 1, marker)


def _paragraph(node: Element, budget: _CellLimits, depth: int, marker: str) -> Iterator[Found]:
    beside: list[Element] = []
    text = tidy("".join(_pieces(node, beside)))
    style = node.get(f"{_TEXT}style-name") or ""
    if text:
        level = node.get(f"{_TEXT}outline-level") if node.tag == f"{_TEXT}h" else None
        if level is None and node.tag == f"{_TEXT}h":
            level = "1"
        is_heading = level is not None and level.isdecimal() and not marker.strip()
        yield _number(level, 1) if is_heading else None, marker + text, style
    for one in beside:
        yield from _blocks(one, budget, depth + 1)


def _pieces(node: Element, beside: list[Element]) -> Iterator[str]:
    """Yield the text of a paragraph; notes and frames within it go to ``beside``."""
    waiting: list[Element | str] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
            continue
        inner: list[Element | str] = []
        if one is node or one.tag not in {f"{_TEXT}note", f"{_TEXT}p"}:
            inner.append(_collapsed(one.text))
        for child in one:
            if not isinstance(child.tag, str) or child.tag in _LEFT_OUT:
                pass
            elif child.tag == f"{_TEXT}s":
                inner.append(" " * min(_number(child.get(f"{_TEXT}c"), 1), 100))
            elif child.tag in _SIGNS:
                inner.append(_SIGNS[child.tag])
            elif child.tag == f"{_TEXT}note" or child.tag.startswith(_DRAW):
                beside.append(child)
            else:
                inner.append(child)
            inner.append(_collapsed(child.tail))
        waiting += reversed(inner)


def _collapsed(text: str | None) -> str:
    return re.sub(r"[ \t\r\n]+", " ", text or "")


def _rows(table: Element, depth: int, budget: _CellLimits) -> Iterator[str]:
    waiting = list(reversed(table))
    while waiting:
        row = waiting.pop()
        if row.tag in {f"{_TABLE}table-header-rows", f"{_TABLE}table-rows", f"{_TABLE}table-row-group"}:
            waiting += reversed(row)
        elif row.tag == f"{_TABLE}table-row":
            cells = list(_cells(row, depth, budget))
            if any(cells):
                line = " | ".join(cells).rstrip(" |")
                for _ in range(_times(row, "number-rows-repeated")):
                    budget.take(len(cells), len(line))
                    yield line


def _cells(row: Element, depth: int, budget: _CellLimits) -> Iterator[str]:
    empty = 0
    for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
        text = " ".join(" ".join(part.split()) for _, part, _ in _blocks(cell, budget, depth + 1))
        text = text or cell.get(f"{_OFFICE}string-value") or cell.get(f"{_OFFICE}value") or ""
        times = _times(cell, "number-columns-repeated")
        if not text:
            empty += times  # rows often end with thousands of empty cells
            continue
        budget.take(empty + times, len(text) * times)
        yield from [""] * min(empty, _REPEATED)
        yield from [text] * times
        empty = 0


def _times(node: Element, name: str) -> int:
    return min(_number(node.get(f"{_TABLE}{name}"), 1), _REPEATED)


def _number(text: str | None, otherwise: int) -> int:
    return int(text[:9]) if text and text.isdecimal() else otherwise

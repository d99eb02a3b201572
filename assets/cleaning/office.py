"""Office files: Word documents, workbooks and presentations; facts come from the file's properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from io import BytesIO
from itertools import zip_longest
from typing import Any, NamedTuple

from rag_assay.assets.cleaning.draft import CellLimit, DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.fidelity import Fidelity, add
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.titles import is_title, names_in
from rag_assay.assets.cleaning.tree import parse_xml
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.assets.cleaning.written_dates import written_date
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.iso_dates import texts_in
from rag_assay.warehouse.office_packages import KINDS, as_plain, load_workbook, why_not

_HEAD = 300  # characters in which the date of a document stands, if it is its own
_TEMPLATES = ("2013-12-23T23:15", "2013-01-27T09:14")  # the templates of python-docx and python-pptx


def check_package(body: bytes, suffix: str) -> None:
    if reason := why_not(body, KINDS[suffix]):
        raise UnusablePage(f"{KINDS[suffix].name}: {reason}")


def with_facts(outline: OutlineBuilder, properties: Any, first: str | None, **metadata: Any) -> DocumentDraft:
    text = outline.closed().text
    if not text:
        raise UnusablePage("no text in the file")
    file_title = tidy(str(properties.title or ""))
    title = file_title if is_title(file_title) else first or text.split("\n", 1)[0]
    created, changed = _time(properties.created), _time(properties.modified)
    written = written_date(title) or written_date(text[:_HEAD])
    known = {
        "date_source": "text" if written else "file" if created else "none",
        "created": created,
        "modified": changed,
        "description": tidy(str(getattr(properties, "subject", None) or "")) or None,
        **metadata,
    }
    code = getattr(properties, "language", None)
    found = re.match(r"([a-z]{2})(?:[-_]|$)", str(code or "").lower())
    return DocumentDraft(
        text=text,
        title=title[:_HEAD],
        published_at=written or (created[:10] if created else None),
        language=(found[1] if found else None),
        authors=names_in(
            tidy(str(getattr(properties, "author", None) or getattr(properties, "creator", None) or ""))
        ),
        keywords=tuple(texts_in(re.split("[,;]", str(properties.keywords or "")))),
        sections=tuple(outline.sections),
        metadata={name: value for name, value in known.items() if value is not None},
        repaired=True,
    )


def _time(value: object) -> str | None:
    if not isinstance(value, datetime) or value.isoformat().startswith(_TEMPLATES):
        return None
    return value.isoformat()


W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_LEFT_OUT = frozenset({f"{W}del", f"{W}moveFrom", f"{W}instrText", f"{W}delText", _FALLBACK})
_BOX = f"{W}txbxContent"
_SIGNS = {f"{W}tab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-"}
DEEPEST = 100  # tables in tables, and whatever else holds itself

Element = Any  # lxml's elements come untyped


class Block(NamedTuple):
    """A paragraph, or a row of a table; ``level``: its own outline level, from 0."""

    text: str
    style: str | None = None
    level: int | None = None
    is_item: bool = False
    notes: tuple[tuple[str, str], ...] = ()


def blocks_of(parent: Element, depth: int = 0) -> Iterator[Block]:
    if depth > DEEPEST:
        return
    for element in parent:
        if element.tag == f"{W}p":
            yield _paragraph(element)
            for box in element.iter(_BOX):
                if not any(above.tag in _LEFT_OUT for above in box.iterancestors()):
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


def _value(element: Element) -> str | None:
    return None if element is None else element.get(f"{W}val")


_HEADING = re.compile(r"heading (\d)", re.I)
_NOTES = {"/footnotes": "footnote", "/endnotes": "endnote"}


def clean_docx(body: bytes) -> DocumentDraft:
    """Extract the text of a Word document; headings, by style or outline level, begin sections. List items
    begin with "- ", cells are separated by " | ", notes follow their paragraph; deleted text, headers and
    footers are left out.
    """
    check_package(body, ".docx")
    require("docx", "reading DOCX files")
    import docx

    document = docx.Document(BytesIO(as_plain(body, KINDS[".docx"])))
    levels, titles, items = _styles(document)
    notes = _notes(document)
    outline, title, open_levels = OutlineBuilder(), None, list[int]()
    for block in blocks_of(document.element.body):
        if text := tidy(block.text):
            level = _level(block, levels)
            if level is None:
                outline.add(f"- {text}" if block.is_item or block.style in items else text)
            else:
                open_levels = [*(above for above in open_levels if above < level), level]
                outline.begin(" ".join(text.split()), len(open_levels))
            if title is None and block.style in titles:
                title = " ".join(text.split())
        for note in block.notes:
            if text := notes.get(note, ""):
                outline.add(text)
    return with_facts(outline, document.core_properties, title or outline.first_heading)


def _level(block: Block, levels: Mapping[str, int]) -> int | None:
    if block.level is not None:
        return block.level + 1 if block.level < 9 else None
    return levels.get(block.style or "")


def _styles(document: Any) -> tuple[dict[str, int], set[str], set[str]]:
    """Return heading levels by style id, and the style ids of titles and of list items. A style that is based
    on a heading is one; styles may be based on each other in a cycle.
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
    found: dict[tuple[str, str], str] = {}
    for relation in document.part.rels.values():
        kind = next((kind for end, kind in _NOTES.items() if relation.reltype.endswith(end)), None)
        if kind is None or relation.is_external:
            continue
        for note in parse_xml(relation.target_part.blob).iter(f"{W}{kind}"):
            text = " ".join(tidy(block.text) for block in blocks_of(note) if block.text)
            found[kind, str(note.get(f"{W}id"))] = " ".join(text.split())
    return found


_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_DRAWN = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_DEEPEST = 50  # groups within groups


def clean_pptx(body: bytes) -> DocumentDraft:
    """Extract the text of a presentation, one section per slide: title, other shapes, speaker's notes. A
    slide without a title is called by its number; charts give their title and a row for each category,
    pictures their description. `metadata` holds the number of `slides`.
    """
    check_package(body, ".pptx")
    require("pptx", "reading PPTX files")
    import pptx

    presentation = pptx.Presentation(BytesIO(as_plain(body, KINDS[".pptx"])))
    outline, first = OutlineBuilder(), None
    fidelity: Fidelity = {}
    slides = list(presentation.slides)
    for number, slide in enumerate(slides, 1):
        top = slide.shapes.title
        title = " ".join(tidy(top.text_frame.text).split()) if top is not None else ""
        shapes = list(_shapes(slide.shapes))
        others = [text for shape in shapes if shape != top for text in _texts(shape)]
        charts = [shape for shape in shapes if getattr(shape, "has_chart", False)]
        pictures = [shape for shape in shapes if hasattr(shape, "image") and _description(shape)]
        add(fidelity, {"charts": _kept(charts), "images": _kept(pictures)})
        if title:
            outline.begin(title, 1)
            first = first or title
        elif others:
            outline.begin(f"Slide {number}", 1)
        for text in [*others, *_speaker_notes(slide)]:
            outline.add(text)
    held = {kind: counts for kind, counts in fidelity.items() if counts[0]} or None
    return with_facts(outline, presentation.core_properties, first, slides=len(slides), fidelity=held)


def _kept(shapes: Sequence[Any]) -> list[int]:
    texts = [any(_texts(shape)) for shape in shapes]
    return [len(texts), sum(texts)]


def _shapes(shapes: Any, depth: int = 0) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < _DEEPEST:
            yield from _shapes(shape.shapes, depth + 1)
        else:
            yield shape


def _texts(shape: Any) -> Iterator[str]:
    if getattr(shape, "has_table", False):
        for row in shape.table.rows:
            cells = [" ".join(tidy(cell.text).split()) for cell in row.cells]
            if any(cells):
                yield " | ".join(cells)
    elif getattr(shape, "has_chart", False):
        yield from _chart(shape.chart_part.blob)
    elif hasattr(shape, "image"):
        if description := _description(shape):
            yield f"[{description}]"
    elif getattr(shape, "has_text_frame", False):
        lines = [tidy(part.text) for part in shape.text_frame.paragraphs]
        if any(lines):
            yield "\n".join(filter(None, lines))


def _description(shape: Any) -> str:
    """Return a picture's description; "" if it has fewer than two words or is a file name."""
    text = " ".join(tidy(str(shape._element._nvXxPr.cNvPr.get("descr") or "")).split())
    return text if " " in text and not re.search(r"\.\w{3,4}$", text) else ""


def _chart(part: bytes) -> Iterator[str]:
    """Yield a chart's title, and a table of its categories and series, for any chart type."""
    root = parse_xml(part)
    title = root.find(f"{_CHART}chart/{_CHART}title")
    if title is not None and (words := " ".join(tidy(" ".join(title.itertext(_DRAWN))).split())):
        yield words
    rows: dict[str, list[str]] = {"": []}
    series = list(root.iter(f"{_CHART}ser"))
    for number, one in enumerate(series):
        rows[""].append(" ".join(_points(one, "tx").values()))
        labels = _points(one, "cat", "xVal")
        for place, value in _points(one, "val", "yVal").items():
            cells = rows.setdefault(labels.get(place, str(place + 1)), [])
            cells += [""] * (number - len(cells)) + [value]
    if len(rows) > 1:
        yield "\n".join(" | ".join([label, *cells]).rstrip(" |") for label, cells in rows.items())


def _points(series: Any, *names: str) -> dict[int, str]:
    """Return position -> text of each point: numbers as usually written, multi-level labels joined."""
    found: dict[int, list[str]] = {}
    for node in series.iterchildren(*(f"{_CHART}{name}" for name in names)):
        for point in node.iter(f"{_CHART}pt"):
            text = point.findtext(f"{_CHART}v") or ""
            number = re.fullmatch(r"-?\d+(?:\.\d+)?(?:E[+-]?\d+)?", text)
            shown = cell_text(float(text) if number else text)
            found.setdefault(int(point.get("idx", 0)), []).insert(0, shown)
    return {place: " ".join(texts) for place, texts in sorted(found.items())}


def _speaker_notes(slide: Any) -> Iterator[str]:
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if frame is not None and (text := tidy(frame.text)):
        yield text


# Those between the first and the last of a row included, which take no place in a file
MAX_CELLS = 20_000_000


def clean_xlsx(body: bytes) -> DocumentDraft:
    """Extract the text of a workbook: one section per sheet, one line per row, cells separated by " | ". A
    formula counts as the value computed last or, if there is none, as written.
    """
    check_package(body, ".xlsx")
    require("openpyxl", "reading XLSX files")
    values, formulas = (load_workbook(body, data_only=known) for known in (True, False))
    outline = OutlineBuilder()
    budget = CellLimit(MAX_CELLS, "cells")
    for sheet, source in zip(values.worksheets, formulas.worksheets, strict=True):
        lines = list(_lines(sheet, source, budget))
        if lines:
            outline.begin(tidy(sheet.title) or "Sheet", 1)
            outline.add("\n".join(lines))
    return with_facts(outline, values.properties, outline.first_heading, sheets=len(values.worksheets))


def _lines(sheet: Any, source: Any, budget: CellLimit) -> Iterator[str]:
    for one in (sheet, source):
        one.reset_dimensions()  # what a file says of its size may be anything
    rows = zip_longest(sheet.iter_rows(values_only=True), source.iter_rows(values_only=True), fillvalue=())
    for computed, written in rows:
        budget.take(len(computed) + 1)
        cells = [
            cell_text(formula if value is None else value)
            for value, formula in zip_longest(computed, written)
        ]
        if any(cells):
            yield " | ".join(cells).rstrip(" |")


def cell_text(value: object) -> str:
    """Return what a cell holds as it is usually written, on one line.

    >>> cell_text(7.0), cell_text(0.5), cell_text(datetime(2024, 5, 6)), cell_text(True), cell_text(None)
    ('7', '0.5', '2024-05-06', 'TRUE', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    return " ".join(tidy(str(value)).split())

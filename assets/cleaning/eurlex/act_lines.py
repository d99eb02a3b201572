"""Reads the page of an act as lines, each with its markup classes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator
from typing import NamedTuple

from lxml import etree

from rag_assay.assets.cleaning.tree import Element

MOST_COLUMNS = 200  # that spans may take in a row; a page can claim any number
REPEATED = 100  # characters of a cell that stand again in each further row that it spans; longer ones once

_NAMES = (
    "address article aside blockquote body center dd div dl dt fieldset figure footer h1 h2 h3 h4 h5 h6 "
    "header hr html li main ol p pre section td th tr tbody thead tfoot txt_te ul"
)
BLOCKS = frozenset(_NAMES.split())
SKIPPED = frozenset(
    "script style head noscript button nav form select img svg colgroup col".split()  # noqa: SIM905
)
_APART = BLOCKS | {"table", "caption", "br"}
_SECTIONS = ("thead", "tbody", "tfoot")
_NUMBER = re.compile(r"\s*(\d{1,5})")


class Slot(NamedTuple):
    """One column of one row: the cell that begins here, or what another one leaves here."""

    cell: Element | None
    above: str = ""  # text of the cell that reaches down from a row above


Row = list[Slot]


class _Span(NamedTuple):
    rows: int  # that it still reaches into
    text: str


def is_data(table: Element) -> bool:
    class_names = (table.get("class") or "").split()
    return bool({"table", "oj-table"} & set(class_names)) or table.get("border", "0") not in ("0", "")


def has_spans(table: Element) -> bool:
    return any(_rows_of(cell) > 1 for rows in _sections(table) for row in rows for cell in _cells(row))


def grid(table: Element) -> Iterator[Row]:
    for rows in _sections(table):
        spans: dict[int, _Span] = {}
        for row in rows:
            slots, spans = _row(_cells(row), spans)
            yield slots


def text_of(node: Element, without: Collection[Element] = ()) -> str:
    if not len(node):
        return node.text or ""
    parts: list[str] = []
    skipped = 0  # how deep in an element that is left out
    for event, part in etree.iterwalk(node, events=("start", "end")):
        out = part is not node and (part.tag in SKIPPED or part in without)
        if event == "start":
            skipped += out
            _add(parts, part, part.text, skipped)
        else:
            skipped -= out
            _add(parts, part, None if part is node else part.tail, skipped)
    return "".join(parts)


def _add(parts: list[str], node: Element, text: str | None, skipped: int) -> None:
    if skipped:
        return
    if node.tag in _APART:
        parts.append(" ")
    if text:
        parts.append(text)


def _row(cells: list[Element], spans: dict[int, _Span]) -> tuple[Row, dict[int, _Span]]:
    row: Row = []
    below: dict[int, _Span] = {}
    for cell in cells:
        _reach(row, spans, below)
        width = min(_number(cell, "colspan"), max(MOST_COLUMNS - len(row), 1))
        height = _rows_of(cell)
        if height > 1:
            cell_text = " ".join(text_of(cell).split())
            texts = [cell_text if len(cell_text) <= REPEATED else "", *[""] * (width - 1)]
            below.update({len(row) + at: _Span(height - 1, text) for at, text in enumerate(texts)})
        row += [Slot(cell), *[Slot(None)] * (width - 1)]
    _reach(row, spans, below)
    while spans:  # columns that no cell of this row comes near, or that one of them lies over
        row += [Slot(None)] * (min(spans) - len(row))
        spans = {column: span for column, span in spans.items() if column >= len(row)}
        _reach(row, spans, below)
    return row, below


def _reach(row: Row, spans: dict[int, _Span], below: dict[int, _Span]) -> None:
    while (span := spans.pop(len(row), None)) is not None:
        if span.rows > 1:
            below[len(row)] = _Span(span.rows - 1, span.text)
        row.append(Slot(None, span.text))


def _cells(row: Element) -> list[Element]:
    return [cell for cell in row if cell.tag in ("td", "th")]


def _rows_of(cell: Element) -> int:
    return _number(cell, "rowspan") if cell.get("rowspan") != "0" else 65_534  # to the end of the section


def _number(cell: Element, name: str) -> int:
    found = _NUMBER.match(cell.get(name) or "")
    return max(int(found[1]), 1) if found else 1


def _sections(table: Element) -> Iterator[list[Element]]:
    loose: list[Element] = []
    for child in table:
        if child.tag == "tr":
            loose.append(child)
        elif child.tag in _SECTIONS:
            if loose:
                yield loose
                loose = []
            yield [row for row in child if row.tag == "tr"]
    if loose:
        yield loose


_ROOTS = ("document1", "docHtml", "textTabContent", "text", "TexteOnly", "document")
# Class names of what stands around an act: the journal's head, amendment marks, tables of contents.
_AROUND = frozenset(
    {"hd-date", "hd-lg", "hd-ti", "hd-oj", "reference"}
    | {"disclaimer", "hd-modifiers", "arrow", "toc-item", "title-toc"}
)
_HEAD = frozenset(
    {"hd-date", "hd-lg", "hd-ti", "hd-oj", "hd-toc-1"}
    | {"title-fam-member-star", "title-fam-member", "title-doc-first", "title-doc-last"}
)
_ELI = re.compile(r"(?:tit|pbl|cit|rct|enc|art|fnp|anx|prt|tis|cpt|sct|sbs)_?[^.]*$")
_MARKS = re.compile(r"[►▼]\s*(?:[A-Z]\d+|B)\b\s*|[►▼◄]")
_RULE = re.compile(r"[\s—–―_-]{3,}")
_LABEL = re.compile(r"\S{1,12}|[‘“„'\"]?\(?\w{1,4}\)? ?\S{1,4}")
_CAPTION = "—"
# A consolidated text without class names: head of the text, and what follows the title.
_PLAIN_HEAD = re.compile(r"►B\b|(?:Official Journal|Amtsblatt|Journal officiel)\b.*►[ACM]\d")
_FRONT = 8  # lines in which the boilerplate stands
_BOILERPLATE = re.compile(
    r"^0?\d{4}[A-Z]{1,2}\d{4} [—–-] [A-Z]{2} [—–-] \d\d\.\d\d\.\d{4}|documentation tool|Dokumentationsquelle"
    r"|^(?:Amended|Corrected|Geändert|Berichtigt) (?:by|durch):?$"
)


class ActLine(NamedTuple):
    """One line of the act: a paragraph, a list item with its number, a heading, or a row of a table."""

    text: str
    classes: frozenset[str] = frozenset()  # without the prefix `oj-`
    eli: str = ""  # nearest id that tells the part of the act: rct_3, art_5, fnp_1, anx_I
    depth: int = 0  # lists and tables around it
    deleted: bool = False  # a mark that something was taken out here; no text


def lines_of(root: Element, named: dict[str, Element]) -> list[ActLine]:
    body = next((named[name] for name in _ROOTS if name in named), root.find("body"))
    if body is None:
        return []
    walker = _Walker()
    walker.walk(body, frozenset())
    walker.flush(frozenset())
    walker.drop_label()
    return [
        line
        for number, line in enumerate(walker.lines)
        if number > _FRONT or not _BOILERPLATE.search(line.text)
    ]


def collapse_whitespace(text: str) -> str:
    if text.isascii():
        return " ".join(text.split())
    return unicodedata.normalize("NFC", " ".join(text.replace("\u00ad", "").split()))


def _unmarked(text: str) -> str:
    return collapse_whitespace(text if text.isascii() else _MARKS.sub("", text))


def classes_of(node: Element) -> frozenset[str]:
    names = node.get("class")
    return frozenset(name.removeprefix("oj-") for name in names.split()) if names else frozenset()


class _Walker:
    """Walks the tree once; text gathers until a block begins or ends."""

    def __init__(self) -> None:
        self.lines: list[ActLine] = []
        self.gathered: list[str] = []
        self.label = ""  # number of a list item, waiting for its text
        self.depth = 0
        self.eli = ""

    def walk(self, node: Element, classes: frozenset[str]) -> None:
        tag = node.tag
        if tag in SKIPPED:
            return
        if tag == "br":
            self.flush(classes)
        elif tag == "table":
            self.flush(classes)
            self._table(node)
        elif tag in BLOCKS:
            self.flush(classes)
            self._block(node, classes)
        else:
            self._inline(node, classes)

    def flush(self, classes: frozenset[str]) -> None:
        if not self.gathered:
            return
        text = _unmarked("".join(self.gathered))
        self.gathered.clear()
        if text:
            self._add(text, classes)

    def drop_label(self) -> None:
        if self.label:
            self._add("", frozenset())

    def _add(self, text: str, classes: frozenset[str]) -> None:
        if _RULE.fullmatch(text) and not self.label:
            if len(text) > 1 and _CAPTION in text:
                self.lines.append(ActLine("", classes, self.eli, self.depth, deleted=True))
            return
        whole = f"{self.label} {text}".strip()
        self.label = ""
        self.lines.append(ActLine(whole, classes, self.eli, self.depth))

    def _block(self, node: Element, around: frozenset[str]) -> None:
        classes = classes_of(node)
        if "modref" in classes or "arrow" in classes:
            if _CAPTION in "".join(node.itertext()):
                self.lines.append(ActLine("", frozenset({"modref"}), self.eli, self.depth, deleted=True))
            return
        if classes & _AROUND:
            return
        if "grid-list-column-1" in classes:
            self._label(node)
            return
        node_id = node.get("id")
        before = self.eli
        if node_id and _ELI.match(node_id):
            self.eli = node_id
        deeper = "grid-list-column-2" in classes
        self.depth += deeper
        inner_classes = classes or (around if node.tag in ("div", "span", "txt_te") else frozenset())
        self._inside(node, inner_classes)
        self.flush(inner_classes)
        self.depth -= deeper
        if deeper:
            self.drop_label()
        self.eli = before

    def _inline(self, node: Element, classes: frozenset[str]) -> None:
        class_name = node.get("class") or ""
        if "no-parag" in class_name and not "".join(self.gathered).strip():
            self._label(node)
            return
        self._inside(node, classes)
        if class_name == "num":
            self.gathered.append(" ")

    def _inside(self, node: Element, classes: frozenset[str]) -> None:
        gathered = self.gathered
        if node.text and (gathered or not node.text.isspace()):
            gathered.append(node.text)
        for child in node:
            self.walk(child, classes)
            tail = child.tail
            if tail and (gathered or not tail.isspace()):
                gathered.append(tail)

    def _label(self, node: Element) -> None:
        text = _text(node)
        self.label = f"{self.label} {text}".strip()

    # -------------------------------------------------------------------------------------- tables

    def _table(self, table: Element) -> None:
        if _is_head(table):
            return
        for caption in table.iterchildren("caption"):
            self._inside(caption, frozenset())
            self.flush(frozenset({"title-table"}))
        data = is_data(table) or has_spans(table)
        for row in grid(table):
            filled = [slot.cell for slot in row if slot.cell is not None and _has_text(slot.cell)]
            if data or not all(_LABEL.fullmatch(_text(cell)) for cell in filled[:-1]):
                self._data_row(row, filled)
            elif filled:
                self.label = " ".join([self.label, *map(_text, filled[:-1])]).strip()
                self._cell(filled[-1])

    def _data_row(self, row: Row, filled: list[Element]) -> None:
        if len(filled) == 1 and filled[0].find(".//table") is not None:
            self._cell(filled[0])
            return
        inner = [table for cell in filled for table in cell.iterfind(".//table") if is_data(table)]
        texts = [slot.above if slot.cell is None else _text(slot.cell, inner) for slot in row]
        filled_columns = [number for number, text in enumerate(texts) if text]
        if filled and filled_columns:
            self.drop_label()
            text = " | ".join(texts[: filled_columns[-1] + 1]).strip()
            self.lines.append(ActLine(text, frozenset({"row"}), self.eli, self.depth + 1))
        self.depth += 1
        for table in inner:
            if not any(above in inner for above in table.iterancestors("table")):
                self._table(table)
        self.depth -= 1

    def _cell(self, cell: Element) -> None:
        self.depth += 1
        self._inside(cell, frozenset())
        self.flush(frozenset())
        self.drop_label()
        self.depth -= 1


def _text(node: Element, without: list[Element] | tuple[()] = ()) -> str:
    return _unmarked(text_of(node, without))


def _has_text(node: Element) -> bool:
    return any(not text.isspace() for text in node.itertext())


def _is_head(table: Element) -> bool:
    for number, paragraph in enumerate(table.iter("p")):
        if classes_of(paragraph) & _HEAD:
            return True
        if number > 8:
            break
    return bool(_PLAIN_HEAD.match(collapse_whitespace("".join(table.itertext()))[:300]))

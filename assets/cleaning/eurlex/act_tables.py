"""Reads HTML tables as grids, with cells that span rows or columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Slot:
    """One column of one row: the cell that begins here, or what another one leaves here."""

    cell: Element | None
    above: str = ""  # text of the cell that reaches down from a row above


Row = list[Slot]


@dataclass(frozen=True, slots=True)
class _Span:
    rows: int  # that it still reaches into
    text: str


def is_data(table: Element) -> bool:
    """Return whether a table's markup says that it holds data; others number the paragraphs of a list."""
    class_names = (table.get("class") or "").split()
    return bool({"table", "oj-table"} & set(class_names)) or table.get("border", "0") not in ("0", "")


def has_spans(table: Element) -> bool:
    """Return whether a cell of the table itself spans rows, which no list needs."""
    return any(_rows_of(cell) > 1 for rows in _sections(table) for row in rows for cell in _cells(row))


def grid(table: Element) -> Iterator[Row]:
    """Yield the rows of a table itself; those of tables in its cells are left to the caller."""
    for rows in _sections(table):
        spans: dict[int, _Span] = {}
        for row in rows:
            slots, spans = _row(_cells(row), spans)
            yield slots


def text_of(node: Element, without: Collection[Element] = ()) -> str:
    """Return the text below an element, with a space where a block begins or ends.

    without: elements below it that are left out
    """
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
    """Place the cells of a row beside what reaches down to it; return also what reaches further down."""
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
    """Take the next columns as far as cells of the rows above reach into them."""
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
    """Yield the rows of head, body and foot apart: no cell reaches from one into another."""
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

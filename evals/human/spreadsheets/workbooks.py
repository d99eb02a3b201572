"""A table as an XLSX workbook: what is to be filled in is open, all else locked, and no cell is a formula."""

from __future__ import annotations

import io
from collections.abc import Iterator
from math import ceil

from openpyxl import Workbook
from openpyxl.cell.cell import Cell as BookCell
from openpyxl.styles import Alignment, Border, Font, PatternFill, Protection, Side
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.worksheet import Worksheet

from rag_assay.evals.human.spreadsheets.formula_escaping import BOOK, escape_xml
from rag_assay.evals.human.spreadsheets.table import SCORES, SKIP, Cell, QueueTable, SpreadsheetColumn

ANCHORS = "how to score"
FIRST = 3  # the row of the first item: below the heading, which is hidden, and the names of the columns
_WIDTHS = {"item": 9, "score": 13, "comment": 34}
_TEXT_WIDTHS = {"question": 36, "answer": 62, "second answer": 62, "ground truth": 36}
_PASSAGE_WIDTH = 62
_LINE_HEIGHT, _LOWEST, _HIGHEST = 15.0, 45.0, 300.0  # points
_INK, _PAPER, _OPEN, _SHUT = "FF1A2026", "FFE8EEF2", "FFFFF8E1", "FFD9DEE2"
_EDGE = Side(style="thin", color="FFC4CCD2")
_BORDER = Border(left=_EDGE, right=_EDGE, top=_EDGE, bottom=_EDGE)
_WRAPPED = Alignment(wrap_text=True, vertical="top")
_MIDDLE = Alignment(horizontal="center", vertical="top")


def workbook_bytes(table: QueueTable) -> bytes:
    book = Workbook()
    scores = book.active
    scores.title = SCORES
    legend = book.create_sheet(ANCHORS)
    ranges = _write_legend(legend, table)
    _write_head(scores, table)
    for number, (row, is_open) in enumerate(zip(table.rows, table.open, strict=True), FIRST):
        for place, (column, cell) in enumerate(zip(table.columns, row, strict=True), 1):
            asked = column.kind == "comment" or column.asked in is_open
            _write(scores.cell(number, place), cell, column, is_open=asked)
        scores.row_dimensions[number].height = _height(table.columns, row)
    _validate(scores, table, ranges)
    lock = scores.protection
    lock.sheet = True
    lock.sort = lock.autoFilter = lock.formatColumns = lock.formatRows = False
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _write_head(sheet: Worksheet, table: QueueTable) -> None:
    _put(sheet.cell(1, 1), escape_xml(table.heading.line()))
    sheet.row_dimensions[1].hidden = True
    for place, column in enumerate(table.columns, 1):
        cell = sheet.cell(2, place)
        _put(cell, BOOK.written(column.name))
        cell.font, cell.alignment, cell.border = Font(bold=True, color=_INK), _WRAPPED, _BORDER
        cell.fill = PatternFill("solid", fgColor=_PAPER)
        sheet.column_dimensions[get_column_letter(place)].width = _width(column)
    sheet.freeze_panes = "C3"
    last = get_column_letter(len(table.columns))
    sheet.auto_filter.ref = f"A2:{last}{max(len(table.rows) + FIRST - 1, 2)}"
    sheet.sheet_view.zoomScale = 90


def _write(cell: BookCell, value: Cell, column: SpreadsheetColumn, *, is_open: bool) -> None:
    cell.border = _BORDER
    cell.alignment = _MIDDLE if column.kind in {"item", "score"} else _WRAPPED
    if column.kind in {"score", "comment"}:
        cell.protection = Protection(locked=not is_open)
        cell.fill = PatternFill("solid", fgColor=_OPEN if is_open else _SHUT)
    elif column.kind == "item":
        cell.font = Font(color="FF7A868F", size=8)
    if column.kind == "comment":
        cell.number_format = "@"  # what is typed there is text, whatever it looks like
    _put(cell, value)


def _put(cell: BookCell, value: Cell) -> None:
    """Texts are never formulas, nor errors such as `#N/A`."""
    cell.value = value
    if isinstance(value, str):
        cell.data_type = "s"


def _write_legend(sheet: Worksheet, table: QueueTable) -> dict[str, str]:
    ranges: dict[str, str] = {}
    at = 1
    for column, criterion in table.legend:
        _put(sheet.cell(at, 1), BOOK.written(column.name))
        _put(sheet.cell(at, 3), BOOK.written(criterion.ask))
        sheet.cell(at, 1).font = sheet.cell(at, 3).font = Font(bold=True, color=_INK)
        first = at + 1
        lines: Iterator[tuple[Cell, str]] = iter(
            [*criterion.anchors.items(), (SKIP, "You cannot tell; it counts as not scored")]
        )
        for at, (value, words) in enumerate(lines, first):
            _put(sheet.cell(at, 2), value)
            _put(sheet.cell(at, 3), BOOK.written(words))
        ranges[column.name] = f"'{ANCHORS}'!$B${first}:$B${at}"
        at += 2
    for letter, width in zip("ABC", (26, 9, 100), strict=True):
        sheet.column_dimensions[letter].width = width
    for row in sheet.iter_rows():
        for cell in row:
            cell.alignment = _WRAPPED
    sheet.protection.sheet = True
    return ranges


def _validate(sheet: Worksheet, table: QueueTable, ranges: dict[str, str]) -> None:
    if not table.rows:
        return
    for place, column in enumerate(table.columns, 1):
        if column.kind != "score":
            continue
        rule = DataValidation("list", formula1=ranges[column.name], allow_blank=True)
        rule.showErrorMessage, rule.errorStyle = True, "stop"
        rule.errorTitle, rule.error = (
            "Not a value of the rubric",
            f"Choose one of the list; see the sheet “{ANCHORS}”.",
        )
        letter = get_column_letter(place)
        rule.add(f"{letter}{FIRST}:{letter}{FIRST + len(table.rows) - 1}")
        sheet.add_data_validation(rule)


def _width(column: SpreadsheetColumn) -> float:
    if column.kind != "text":
        return _WIDTHS[column.kind]
    return _TEXT_WIDTHS.get(column.name.partition(" (part")[0], _PASSAGE_WIDTH)


def _height(columns: list[SpreadsheetColumn], row: list[Cell]) -> float:
    lines = 1
    for column, cell in zip(columns, row, strict=True):
        if column.name in _TEXT_WIDTHS and isinstance(cell, str):
            of_cell = sum(max(ceil(len(line) * 1.1 / _width(column)), 1) for line in cell.splitlines())
            lines = max(lines, of_cell)
    return min(max(lines * _LINE_HEIGHT, _LOWEST), _HIGHEST)

"""Workbooks of Excel before 2007 (XLS)."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace
from typing import Any

from rag_assay.assets.cleaning.draft import CellLimit, DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.office import MAX_CELLS, cell_text, with_facts
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.warehouse.extras import require


def clean_xls(body: bytes) -> DocumentDraft:
    """Extract the text of a workbook as `clean_xlsx` does: one section per sheet, one line per row."""
    require("xlrd", "reading XLS files")
    import xlrd  # type: ignore[import-untyped]

    try:
        book = xlrd.open_workbook(file_contents=body, logfile=StringIO(), on_demand=True, ragged_rows=True)
        outline, budget = OutlineBuilder(), CellLimit(MAX_CELLS, "cells")
        for name in book.sheet_names():
            sheet = book.sheet_by_name(name)
            if lines := list(_lines(sheet, book.datemode, budget)):
                outline.begin(tidy(name) or "Sheet", 1)
                outline.add("\n".join(lines))
            book.unload_sheet(name)
    except UnusablePage:
        raise
    except Exception as error:  # of damaged bytes, of any kind
        raise UnusablePage(f"XLS: {_why(error)}") from error
    nothing = SimpleNamespace(title="", author=book.user_name or "", keywords="", created=None, modified=None)
    return with_facts(outline, nothing, outline.first_heading, sheets=book.nsheets)


def _why(error: Exception) -> str:
    if "encrypted" in str(error).lower():
        return "encrypted: it asks for a password"
    return f"damaged: {type(error).__name__}: {str(error)[:100]}"


def _lines(sheet: Any, datemode: int, budget: CellLimit) -> Iterator[str]:
    for number in range(sheet.nrows):
        cells = [_value(cell, datemode) for cell in sheet.row(number)]
        budget.take(len(cells) + 1)
        if any(cells):
            yield " | ".join(cells).rstrip(" |")


def _value(cell: Any, datemode: int) -> str:
    import xlrd

    if cell.ctype == xlrd.XL_CELL_DATE:
        try:
            return cell_text(xlrd.xldate.xldate_as_datetime(cell.value, datemode))
        except (ValueError, OverflowError):
            return cell_text(cell.value)
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return cell_text(bool(cell.value))
    if cell.ctype == xlrd.XL_CELL_ERROR:
        return str(xlrd.error_text_from_code.get(cell.value, ""))
    return cell_text(cell.value)

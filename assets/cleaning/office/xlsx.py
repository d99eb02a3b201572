"""Workbooks: a section a sheet, a line a row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from io import BytesIO
from itertools import zip_longest
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.office.office_facts import check_package, with_facts
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.warehouse.extras import require

MAX_CELLS = (
    20_000_000  # those between the first and the last of a row included, which take no place in a file
)


def clean_xlsx(body: bytes) -> DocumentDraft:
    """Extract the text of a workbook: each sheet a section with its name as heading, its rows as lines.

    Cells stand between " | ", empty ones at the end of a row are left out. Of a formula its value counts as
    it was computed last; where a program has written the file and computed none, the formula itself.

    Raises:
        Unusable: encrypted, damaged, a bomb, or without text.
    """
    check_package(body, ".xlsx")
    require("openpyxl", "reading XLSX files")
    from openpyxl import load_workbook

    values, formulas = (
        load_workbook(BytesIO(body), read_only=True, data_only=known) for known in (True, False)
    )
    outline = OutlineBuilder()
    left = [MAX_CELLS]
    for sheet, source in zip(values.worksheets, formulas.worksheets, strict=True):
        lines = list(_lines(sheet, source, left))
        if lines:
            outline.begin(tidy(sheet.title) or "Sheet", 1)
            outline.add("\n".join(lines))
    first = outline.sections[0]["heading"] if outline.sections else None
    return with_facts(outline, values.properties, first, sheets=len(values.worksheets))


def _lines(sheet: Any, source: Any, left: list[int]) -> Iterator[str]:
    for one in (sheet, source):
        one.reset_dimensions()  # what a file says of its size may be anything
    rows = zip_longest(sheet.iter_rows(values_only=True), source.iter_rows(values_only=True), fillvalue=())
    for computed, written in rows:
        left[0] -= len(computed) + 1
        if left[0] < 0:
            raise UnusablePage(f"XLSX: more than {MAX_CELLS} cells")
        cells = [
            cell_text(formula if value is None else value)
            for value, formula in zip_longest(computed, written)
        ]
        if any(cells):
            yield " | ".join(cells).rstrip(" |")


def cell_text(value: object) -> str:
    """Return what a cell holds as people write it, on one line.

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

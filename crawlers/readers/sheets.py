"""Reads the sheets of a workbook row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.office_packages import KINDS, MAX_UNPACKED, why_not

Rows = Iterator[Sequence[Any]]


def open_sheets(path: Path) -> list[tuple[str, Rows]]:
    """Return the name and the rows of each sheet that has any; formulas as the values computed last.

    Raises:
        ValueError: it is no workbook that can be used; the message says why.
    """
    try:
        body = read_bounded(path, MAX_UNPACKED)
    except InputError as error:
        raise ValueError(str(error)) from error
    if reason := why_not(body, KINDS[".xlsx"]):
        raise ValueError(reason)
    require("openpyxl", "reading XLSX files")
    from openpyxl import load_workbook

    try:
        book = load_workbook(BytesIO(body), read_only=True, data_only=True)
    except Exception as error:
        raise ValueError(f"damaged: {type(error).__name__}: {error}") from error
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # what a file says of its size may be anything
    filled = [sheet for sheet in book.worksheets if any(map(any, sheet.iter_rows(values_only=True)))]
    return [(sheet.title, _rows(sheet)) for sheet in filled or book.worksheets[:1]]


def _rows(sheet: Any) -> Rows:
    try:
        yield from sheet.iter_rows(values_only=True)
    except Exception as error:
        raise ValueError(f"damaged: {type(error).__name__}: {error}") from error


def refused(reason: str) -> Rows:
    """Return rows whose first one is the reason why there are none."""
    yield from _raising(reason)


def _raising(reason: str) -> NoReturn:
    raise ValueError(reason)

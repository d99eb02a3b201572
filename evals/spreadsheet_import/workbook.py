"""Reads a worksheet of an XLSX file row by row, as somebody else may have made it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.office_packages import KINDS, MAX_UNPACKED, why_not
from rag_assay.warehouse.suggestions import did_you_mean

MAX_LINES = 1_048_576  # of a worksheet: Excel has no more
MAX_CELLS = 20_000_000
MAX_ITEMS = 4_000_000  # texts of the table of texts, styles
MOST_MERGED = 20_000
RATIO, SMALL = 150, 20_000_000  # what a file may unpack to: so many times its size, or so many bytes
_OLD = b"\xd0\xcf\x11\xe0"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ERRORS = frozenset({"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!"})
_FORMULA = re.compile(rb"<(?:\w+:)?f[\s/>]")
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=[\"'](\w+):(\w+)[\"']")
_HIDDEN = re.compile(rb"<(?:\w+:)?row\s[^>]*?hidden=[\"'](?:1|true)[\"']")
_ITEM = re.compile(rb"<(?:\w+:)?(?:si|xf)[\s/>]")


class UnusableCell(NamedTuple):
    """Stands for the value of a cell that cannot be used.

    reason: why not
    """

    reason: str


@dataclass
class Worksheet:
    """The rows of a worksheet.

    rows: line, from 1, and values of each row that is not empty
    notes: what else a person should know of it; whole when the rows have been read
    """

    rows: Iterator[tuple[int, Sequence[Any]]]
    notes: list[str] = field(default_factory=list)


def open_worksheet(path: Path, name: str | None, *, verbatim: bool = False) -> Worksheet:
    """Open a worksheet; formulas are read as the values that were computed last.

    Args:
        path: of the workbook.
        name: of the worksheet; None: there is one alone that holds anything.
        verbatim: leave texts as the file has them; else errors of formulas are `UnusableCell`.

    Raises:
        InputError: it is no workbook that can be used, or which worksheet is meant cannot be told.
    """
    body, book = _opened(path)
    try:
        found = book[_chosen(path, book, name)]
        with ZipFile(BytesIO(body)) as archive:
            # openpyxl keeps to itself where a worksheet lies.
            data = archive.read(found._worksheet_path)
    except InputError:
        raise
    except Exception as error:
        raise _damaged(path, error) from error
    return _read(path, body, found, data, verbatim=verbatim)


def _opened(path: Path) -> tuple[bytes, Any]:
    """Return the bytes of a workbook, and it."""
    body = read_bounded(path, MAX_UNPACKED)
    if reason := _why_refused(body):
        raise InputError(f"{path}: {reason}")
    require("openpyxl", "reading XLSX files")
    from openpyxl import load_workbook

    try:
        book = load_workbook(BytesIO(body), read_only=True, data_only=True)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # what a file says of its size may be anything
    except Exception as error:
        raise _damaged(path, error) from error
    return body, book


def _why_refused(body: bytes) -> str | None:
    """Return why a file cannot be a sheet, in words that say what to do."""
    if body.startswith(_OLD):
        if _ENCRYPTED in body:
            return "protected by a password; open it, save it without one (as .xlsx), and import that"
        return "of an Excel before 2007 (.xls), or no sheet at all; save it as .xlsx"
    if not body.startswith(b"PK"):
        return "no workbook; if it is a table of text, let its name end in .csv"
    if reason := why_not(body, KINDS[".xlsx"]):
        return reason
    return _why_too_much(body)


def _why_too_much(body: bytes) -> str | None:
    with ZipFile(BytesIO(body)) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > max(SMALL, RATIO * len(body)):
            return f"unpacks to more than {RATIO} times its size, as no sheet does"
        for part in parts:
            is_table = part.filename.lower().endswith(("sharedstrings.xml", "styles.xml"))
            if is_table and sum(1 for _ in _ITEM.finditer(archive.read(part))) > MAX_ITEMS:
                return f"{part.filename} has more than {MAX_ITEMS:,} entries"
    return None


def filled_worksheets(path: Path) -> list[str]:
    """Return the names of the worksheets of a workbook that hold anything.

    Raises:
        InputError: it is no workbook that can be used.
    """
    return _filled(_opened(path)[1])


def _filled(book: Any) -> list[str]:
    return [
        sheet.title
        for sheet in book.worksheets
        if any(any(row) for _, row in zip(range(1000), sheet.iter_rows(values_only=True), strict=False))
    ]


def _chosen(path: Path, book: Any, name: str | None) -> str:
    """Return the name of the worksheet that is meant: the one that holds anything, unless it is named."""
    if name is not None:
        names = [sheet.title for sheet in book.worksheets]
        if name not in names:
            raise InputError(f"{path}: no worksheet {name!r}; {did_you_mean(name, names)}")
        return name
    filled = _filled(book)
    if len(filled) > 1:
        which = ", ".join(map(repr, filled))
        raise InputError(
            f"{path}: {len(filled)} worksheets hold something: {which}; say which one is meant, as in "
            f"`worksheet: {filled[0]}`"
        )
    if not filled:
        raise InputError(f"{path}: it holds nothing")
    return str(filled[0])


def _read(path: Path, body: bytes, sheet: Any, data: bytes, *, verbatim: bool) -> Worksheet:
    """Return the rows of a worksheet, told from its XML what openpyxl passes over.

    data: the XML of the worksheet
    """
    notes: list[str] = []
    merged = _Merged(path, data)
    hidden = sum(1 for _ in _HIDDEN.finditer(data))
    if hidden:
        notes.append(f"{path.name}: {hidden} rows of it are hidden; they were read like the others")
    formulas = _formulas(path, body, sheet.title) if _FORMULA.search(data) else None
    rows = _rows(path, sheet, merged, formulas, notes)
    if not verbatim:
        rows = ((line, [_usable(value) for value in values]) for line, values in rows)
    return Worksheet(rows, notes)


def _rows(
    path: Path, sheet: Any, merged: _Merged, formulas: Iterator[Any] | None, notes: list[str]
) -> Iterator[tuple[int, Sequence[Any]]]:
    cells, computed = 0, Counter[str]()
    try:
        for line, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            cells += len(row) + 1
            _check_size(path, line, cells)
            values = list(row)
            for place in next(formulas, ()) if formulas is not None else ():
                computed["formulas"] += 1
                if place >= len(values):
                    values += [None] * (place + 1 - len(values))
                if values[place] is None:
                    values[place] = UnusableCell(
                        "a formula whose value is not stored; open the file in Excel or LibreOffice and save "
                        "it, or put the values in its place"
                    )
            if any(value is not None for value in values):
                merged.mark(line, values)
                yield line, values
    except InputError:
        raise
    except Exception as error:
        raise _damaged(path, error) from error
    if computed:
        notes.append(
            f"{path.name}: {computed['formulas']} cells of it are formulas; the values computed last are read"
        )


def _check_size(path: Path, line: int, cells: int) -> None:
    if line > MAX_LINES or cells > MAX_CELLS:
        raise InputError(f"{path}:{line}: more rows or columns than a sheet has; split it")


def _usable(value: Any) -> Any:
    if isinstance(value, str):
        if value in _ERRORS:
            return UnusableCell(f"the error {value} of a formula")
        if "\r" in value or "_x000D_" in value:
            return value.replace("_x000D_\n", "\n").replace("_x000D_", "\n").replace("\r\n", "\n")
    return value


def _formulas(path: Path, body: bytes, name: str) -> Iterator[list[int]]:
    """Yield, row by row, the places (from 0) of the cells that are formulas."""
    from openpyxl import load_workbook

    try:
        sheet = load_workbook(BytesIO(body), read_only=True, data_only=False)[name]
        sheet.reset_dimensions()
        for row in sheet.iter_rows():
            yield [place for place, cell in enumerate(row) if getattr(cell, "data_type", "") == "f"]
    except Exception as error:
        raise _damaged(path, error) from error


class _Range(NamedTuple):
    """A range of merged cells; rows and columns from 1, the last ones included."""

    top: int
    left: int
    bottom: int
    right: int
    where: str


class _Merged:
    """The merged cells of a worksheet, of which the first alone holds a value."""

    def __init__(self, path: Path, data: bytes) -> None:
        from openpyxl.utils.cell import coordinate_to_tuple

        found = []
        for number, one in enumerate(_MERGED.finditer(data)):
            if number >= MOST_MERGED:
                raise InputError(f"{path}: more than {MOST_MERGED:,} merged cells; unmerge them")
            first, last = one[1].decode(), one[2].decode()
            with suppress(ValueError):  # what is no place of a cell
                (top, left), (bottom, right) = coordinate_to_tuple(first), coordinate_to_tuple(last)
                found.append(_Range(top, left, bottom, right, f"{first}:{last}"))
        self._coming = sorted(found, reverse=True)
        self._open: list[_Range] = []
        self._path, self._marked = path, 0

    def mark(self, line: int, values: list[Any]) -> None:
        """Put `UnusableCell` for each empty cell that another one covers; rows come in their order."""
        while self._coming and self._coming[-1].top <= line:
            self._open.append(self._coming.pop())
        self._open = [one for one in self._open if one.bottom >= line]
        self._marked += len(self._open)
        _check_size(self._path, line, self._marked)
        for one in self._open:
            for place in range(one.left - (one.top < line), min(one.right, len(values))):
                if values[place] is None:
                    values[place] = UnusableCell(
                        f"merged with others ({one.where}); unmerge, and fill in each"
                    )


def _damaged(path: Path, error: Exception) -> InputError:
    what = " ".join(str(error).split())[:200]
    return InputError(f"{path}: damaged, no worksheet can be read of it ({type(error).__name__}: {what})")

"""Reader of CSV, Parquet and workbooks: a passage a row, streamed."""

from __future__ import annotations

import csv
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, NoReturn

from rag_assay.crawlers.readers.contract import Reader
from rag_assay.crawlers.readers.files import UNREADABLE, as_text, failed_page, files_of, open_file, unreadable
from rag_assay.crawlers.readers.passages import Passages
from rag_assay.warehouse.arrow_files import arrow_columns, arrow_rows, is_of_dataset
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.files import delimiter_of, read_bounded
from rag_assay.warehouse.office_packages import KINDS, MAX_UNPACKED, load_workbook, why_not

if TYPE_CHECKING:
    from rag_assay.crawlers.items import Page
    from rag_assay.warehouse.source import Column, Source

Rows = Iterator[Sequence[Any]]


def open_sheets(path: Path) -> list[tuple[str, Rows]]:
    try:
        body = read_bounded(path, MAX_UNPACKED)
    except InputError as error:
        raise ValueError(str(error)) from error
    if reason := why_not(body, KINDS[".xlsx"]):
        raise ValueError(reason)
    require("openpyxl", "reading XLSX files")
    try:
        book = load_workbook(body, data_only=True)
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
    yield from _raising(reason)


def _raising(reason: str) -> NoReturn:
    raise ValueError(reason)


SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".arrow")
NAMES: tuple[Column, ...] = ("text", "title", "url", "id", "date")
HEAD = 1 << 16  # characters of the first line from which the delimiter is told
ROWS = 256  # of Parquet, at once

Cells = Mapping[str, Any]


class TableReader(Reader):
    """Tables, CSV, Parquet, datasets of Hugging Face and the sheets of a workbook: a page a row."""

    kind: ClassVar[str] = "table"

    def read(self, source: Source) -> Iterator[Page]:
        """Yield one page a row; of a workbook only where the path names it: in a folder it is a document."""
        passages = Passages(source)
        for name, path in files_of(source, SUFFIXES):
            yield from rows_of(name, path, source, passages)


def rows_of(file: str, path: Path, source: Source, passages: Passages) -> Iterator[Page]:
    for name, rows in _tables(file, path, source):
        try:
            for number, row in enumerate(rows, start=1):
                if isinstance(row, csv.Error):
                    yield passages.broken(name, number, str(row))
                else:
                    yield passages.page(name, number, row)
        except _NoColumnError as error:
            yield failed_page(name, str(error))
        except UNREADABLE as error:
            yield unreadable(name, error)


def _tables(name: str, path: Path, source: Source) -> Iterator[tuple[str, Iterator[Cells | csv.Error]]]:
    if path.suffix.lower() == ".parquet":
        yield name, _parquet(path, source)
    elif path.suffix.lower() == ".arrow":
        if is_of_dataset(path):
            yield name, _arrow(path, source)
    elif path.suffix.lower() in (".xlsx", ".xlsm"):
        yield from _sheets(name, path, source)
    else:
        yield name, _csv(path, source)


def _sheets(name: str, path: Path, source: Source) -> Iterator[tuple[str, Iterator[Cells]]]:
    try:
        sheets = open_sheets(path)
    except ValueError as error:
        sheets = [("", refused(str(error)))]
    for title, rows in sheets:
        yield name if len(sheets) == 1 else f"{name}/{title}", _of_sheet(rows, source)


def _of_sheet(rows: Iterator[Sequence[Any]], source: Source) -> Iterator[Cells]:
    columns: list[str] | None = None
    for row in rows:
        if not any(cell is not None for cell in row):
            continue
        if columns is None:
            columns = ["" if cell is None else str(cell).strip() for cell in row]
            _check(columns, source)
        else:
            yield dict(zip(columns, (*row, *[None] * len(columns)), strict=False))
    if columns is None:
        _check([], source)


class _NoColumnError(Exception):
    """A table has no column of a name that the source gives."""


def _check(columns: Sequence[str], source: Source) -> None:
    wanted = [name for name in NAMES if name == "text" or source.column(name) != name]
    for missing in (source.column(name) for name in wanted if source.column(name) not in columns):
        raise _NoColumnError(f"no column {missing!r}; there are {', '.join(columns[:20]) or 'none'}")
    for twice in (source.column(name) for name in NAMES if columns.count(source.column(name)) > 1):
        raise _NoColumnError(f"more than one column {twice!r}")


def _csv(path: Path, source: Source) -> Iterator[Cells | csv.Error]:
    csv.field_size_limit(min(source.limits.page_bytes, sys.maxsize))
    with open_file(path, source) as file, as_text(file, newline="") as text:
        parted_by = delimiter(path, text.readline(HEAD))
        text.seek(0)
        lines = _Lines(text)
        # Strictly: a quotation mark that is never closed would make one cell of all rows below it.
        rows = csv.reader(lines, delimiter=parted_by, strict=True)
        columns = [name.strip() for name in next(rows, [])]
        _check(columns, source)
        while True:
            is_doubtful = lines.begin_row()
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield csv.Error(_UNCLOSED) if lines.give_back() else error
                continue
            if cells:
                yield _row(columns, cells, whole=is_doubtful)


_UNCLOSED = (
    "a quotation mark that is never closed, or not before the end of a cell; the rows below are read again"
)


class _Lines:
    """The lines of a table, which remembers those of the row that is read: a torn row gives them back."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._pushed_back: deque[str] = deque()
        self._row: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._pushed_back.popleft() if self._pushed_back else self._file.readline()
        if not line:
            raise StopIteration
        self._row.append(line)
        return line

    def begin_row(self) -> bool:
        self._row.clear()
        return bool(self._pushed_back)

    def give_back(self) -> bool:
        self._pushed_back.extendleft(reversed(self._row[1:]))
        return len(self._row) > 1


def _row(columns: Sequence[str], cells: Sequence[str], *, whole: bool) -> Cells | csv.Error:
    # More cells than columns are a delimiter within a text: it would be cut off there.
    if any(cells[len(columns) :]) or (whole and len(cells) < len(columns)):
        return csv.Error(f"{len(cells)} cells for {len(columns)} columns")
    return dict(zip(columns, cells, strict=False))


def delimiter(path: Path, first: str) -> str:
    if path.name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    return delimiter_of(first)


def _parquet(path: Path, source: Source) -> Iterator[Cells]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with open_file(path, source) as file, parquet.ParquetFile(file) as table:
            known = table.schema_arrow.names
            _check(known, source)
            columns = [source.column(name) for name in NAMES if source.column(name) in known]
            for batch in table.iter_batches(batch_size=ROWS, columns=columns):
                yield from batch.cast(_without_nanoseconds(batch.schema), safe=False).to_pylist()
    except pa.ArrowException as error:
        raise ValueError(str(error).partition("\n")[0]) from error


def _arrow(path: Path, source: Source) -> Iterator[Cells]:
    known = arrow_columns(path)
    _check(known, source)
    yield from arrow_rows(path, [source.column(name) for name in NAMES if source.column(name) in known])


def _without_nanoseconds(schema: Any) -> Any:
    import pyarrow as pa

    for place, field in enumerate(schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            schema = schema.set(place, field.with_type(pa.timestamp("us", field.type.tz)))
    return schema

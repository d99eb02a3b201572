"""Questions as rows of a table: CSV files, read as text, Parquet, lines of JSON and lines of text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rag_assay.evals.question_sets.readers.contract import (
    MAX_ROWS,
    QuestionRecord,
    Records,
    Row,
    SetFile,
    lines_of_file,
)
from rag_assay.evals.question_sets.readers.records import MAX_CELL, cells_of, naming_of, rows_of
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import check_regular

Objects = Iterator[tuple[str, dict[str, Any] | str]]
"""Place and cells of each row, or why it is none."""
MAX_TABLE = 500_000_000  # bytes of a Parquet file's columns, unpacked


def read_csv(file: SetFile, form: str | None = None) -> list[Row]:
    """Read a CSV file whose first row names the columns; every cell is text, also a formula."""
    return rows_of(_csv_records(file, form), file)


def _csv_records(file: SetFile, form: str | None) -> Records:
    naming: dict[str, str] = {}

    def learn(columns: list[str], line: str) -> None:
        naming.update(naming_of(columns, form, f"{file.path}:{line}"))

    for line, cells in csv_objects(file.path, learn):
        if isinstance(cells, str):
            yield QuestionRecord(line, {}, cells)
        else:
            yield QuestionRecord(line, cells_of(cells, naming))


def csv_objects(
    path: Path, check: Callable[[list[str], str], None] = lambda _columns, _line: None
) -> Objects:
    """Yield line and named cells of each row; or why it is none. check: of the names and their line"""
    columns: list[str] | None = None
    for line, cells in csv_rows(path):
        if isinstance(cells, str):
            yield line, cells
        elif columns is None:
            columns = [name.strip() for name in cells]
            check(columns, line)
        elif any(cells[len(columns) :]):
            yield line, f"{len(cells)} cells for {len(columns)} columns"
        else:
            yield line, dict(zip(columns, cells, strict=False))


def csv_rows(path: Path) -> Iterator[tuple[str, list[str] | str]]:
    from rag_assay.crawlers.readers.table import delimiter

    text = "".join(f"{line}\n" for _, line in lines_of_file(path))
    for line, row in rows_of_text(text, delimiter(path, text.partition("\n")[0])):
        yield str(line), row


def rows_of_text(text: str, parted_by: str) -> Iterator[tuple[int, list[str] | str]]:
    """Yield line and cells of each row that is not empty; what is no row yields a reason, the last."""
    csv.field_size_limit(MAX_CELL)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=parted_by, strict=True)
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows, None)
        except csv.Error as error:
            yield line, f"not a row of a table ({error}); is a quotation mark left open?"
            return  # the rest cannot be parsed
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield line, cells


def read_parquet_questions(file: SetFile, form: str | None = None) -> list[Row]:
    table = parquet_rows(file.path)
    naming = naming_of(table.columns, form, str(file.path))
    records = (
        QuestionRecord(f"row {number}", cells_of(row, naming))
        for number, row in enumerate(table.select(list(naming)).iter_rows(named=True), start=1)
    )
    return rows_of(records, file)


def parquet_rows(path: Path, most: int = MAX_ROWS) -> pl.DataFrame:
    import pyarrow as pa
    from pyarrow import parquet

    check_regular(path)
    try:
        with parquet.ParquetFile(path) as file:
            about = file.metadata
            groups = [about.row_group(number) for number in range(about.num_row_groups)]
            size = sum(max(0, group.total_byte_size) for group in groups)
        if about.num_rows > most:
            raise InputError(f"{path}: {about.num_rows:,} rows; {most:,} are the most; split it")
        if size > MAX_TABLE:
            what = f"{size // 1_000_000:,} MB unpacked; {MAX_TABLE // 1_000_000} MB are the most"
            raise InputError(f"{path}: {what}; split it, or leave out what is not a column of a question")
        return pl.read_parquet(path)
    except (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{path}: not a Parquet file that can be read ({first})") from error


def read_jsonl(file: SetFile, form: str | None = None) -> list[Row]:
    return rows_of(_object_records(json_objects(file.path), file, form), file)


def read_objects(data: list[Any], file: SetFile, form: str | None = None) -> list[Row]:
    items = (
        (f"item {number}", one if isinstance(one, dict) else f"expected an object, not {type(one).__name__}")
        for number, one in enumerate(data, start=1)
    )
    return rows_of(_object_records(items, file, form), file)


def json_objects(path: Path) -> Objects:
    for number, line in lines_of_file(path):
        if line.strip():
            yield str(number), _object(line)


def _object(line: str) -> dict[str, Any] | str:
    try:
        value = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return f"expected a JSON object with a question ({what})"
    return value if isinstance(value, dict) else f"expected a JSON object, not {type(value).__name__}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in it")
    return found


def _object_records(
    items: Iterator[tuple[str, dict[str, Any] | str]], file: SetFile, form: str | None
) -> Records:
    for place, value in items:
        if isinstance(value, str):
            yield QuestionRecord(place, {}, value)
            continue
        try:
            yield QuestionRecord(place, cells_of(value, naming_of(list(value), form, "")))
        except InputError as error:
            yield QuestionRecord(place, {}, "; ".join(one.removeprefix(": ") for one in error.findings))


def read_lines(file: SetFile) -> list[Row]:
    return rows_of(_line_records(file), file)


def _line_records(file: SetFile) -> Records:
    for number, line in lines_of_file(file.path):
        if not line.strip():
            continue
        question, equals, answer = (part.strip() for part in line.partition("="))
        if not equals:
            yield QuestionRecord(str(number), {}, "expected `question=answer`; there is no `=` in this line")
        elif not question or not answer:
            missing = "question before" if not question else "answer behind"
            yield QuestionRecord(
                str(number), {}, f"expected `question=answer`; there is no {missing} the `=`"
            )
        else:
            yield QuestionRecord(str(number), {"question": question, "ground_truth": answer})

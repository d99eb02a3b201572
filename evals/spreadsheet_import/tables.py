"""Opens a sheet of whatever kind: a workbook, a table of text, lines of JSON."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_assay.crawlers.readers.files import as_text
from rag_assay.crawlers.readers.table import delimiter
from rag_assay.evals.question_sets.readers.jsonl import json_objects
from rag_assay.evals.question_sets.readers.table import rows_of_text
from rag_assay.evals.spreadsheet_import.workbook import UnusableCell, open_worksheet
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.suggestions import near_names

SUFFIXES = (".xlsx", ".xlsm", ".csv", ".tsv", ".txt", ".jsonl", ".ndjson")
HEAD = 25  # rows among which the names of the columns are looked for
MAX_TEXT = 300_000_000  # bytes
MOST_COLUMNS = 2_000
_ZIP = b"PK\x03\x04"

Lines = Iterator[tuple[int, Sequence[Any] | Mapping[str, Any] | str]]
"""Line and values of each row that is not empty; named, where each row names them; or why it is no row."""
Named = Iterator[tuple[int, Mapping[str, Any] | str]]


@dataclass
class InputTable:
    """A sheet whose columns are known.

    columns: their names as the sheet has them, in their order
    rows: line and values by folded names; or why it is no row
    notes: what else a person should know; whole when the rows have been read
    """

    columns: tuple[str, ...]
    rows: Named
    notes: list[str] = field(default_factory=list)


def fold_name(name: Any) -> str:
    """Return the name of a column as it is compared: white space and case do not count.

    >>> fold_name("  Retrieve  Methods "), fold_name(None)
    ('retrieve methods', '')
    """
    text = "" if name is None or isinstance(name, UnusableCell) else str(name)
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def open_table(path: Path, wanted: Sequence[str] = (), worksheet: str | None = None) -> InputTable:
    """Open a sheet and find the row that names its columns.

    Args:
        path: of the file.
        wanted: names of columns that it must have; without any, the first row with two texts names them.
        worksheet: of a workbook with several.

    Raises:
        InputError: it cannot be read, or a wanted column is missing or stands there twice.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: a sheet is a file of {', '.join(SUFFIXES)}; save it as one of these")
    if worksheet is not None and suffix not in {".xlsx", ".xlsm"}:
        raise InputError(f"{path}: `worksheet` is of a workbook (.xlsx); leave it out")
    if suffix in {".xlsx", ".xlsm"}:
        found = open_worksheet(path, worksheet)
        return _with_header(path, found.rows, wanted, found.notes, is_text=False)
    body = read_bounded(path, MAX_TEXT)
    if body.startswith((_ZIP, b"\xd0\xcf\x11\xe0")):
        raise InputError(f"{path}: a workbook, not text; let its name end in .xlsx")
    if suffix in {".jsonl", ".ndjson"}:
        return _of_objects(path, wanted)
    text = _text(path, body)
    return _with_header(path, _text_rows(path, text, wanted), wanted, [], is_text=True)


def _text(path: Path, body: bytes) -> str:
    try:
        with as_text(io.BytesIO(body), newline="") as file:
            return file.read().removeprefix("\ufeff")
    except (ValueError, LookupError) as error:
        raise InputError(f"{path}: {error}; save it as CSV in UTF-8, or as .xlsx") from error


def _text_rows(path: Path, text: str, wanted: Sequence[str]) -> Lines:
    """Yield the rows of a table of text, parted by what gives the wanted columns."""
    head = text[: 1 << 16].splitlines()[:HEAD]
    said = re.match(r"sep=([,;\t|])\r?\n", text)
    parted_by = said[1] if said else _delimiter(path, head, {fold_name(name) for name in wanted})
    rows = rows_of_text(text, parted_by)
    if said:
        next(rows, None)
    yield from rows


def _delimiter(path: Path, head: Sequence[str], wanted: set[str]) -> str:
    for sign in ";\t,|" if wanted else "":
        for line in head:
            if wanted <= {fold_name(name.strip().strip('"')) for name in line.split(sign)}:
                return sign
    parted = (line for line in head if re.search(r"[,;\t|]", line))
    return delimiter(path, next(parted, ""))


def _with_header(
    path: Path, rows: Lines, wanted: Sequence[str], notes: list[str], *, is_text: bool
) -> InputTable:
    """Find the row that names the columns; rows above it are passed over."""
    best: tuple[int, int, tuple[Any, ...]] | None = None
    names = {fold_name(name) for name in wanted}
    for number, (line, row) in enumerate(rows):
        if isinstance(row, str):
            raise InputError(f"{path}:{line}: {row}")
        found = {fold_name(name) for name in row} - {""}
        hits = len(names & found) if names else int(sum(isinstance(one, str) for one in row) > 1)
        if best is None or hits > best[0]:
            best = (hits, line, tuple(row))
        if number >= HEAD or (names and names <= found) or (not names and hits):
            break
    if best is None:
        raise InputError(f"{path}: it holds nothing")
    _, line, header = best
    _check_columns(f"{path}:{line}", header, wanted)
    columns = tuple(str(name).strip() for name in header if fold_name(name))
    return InputTable(columns, _named(rows, [fold_name(name) for name in header], is_text=is_text), notes)


def _check_columns(place: str, header: Sequence[Any], wanted: Sequence[str]) -> None:
    if len(header) > MOST_COLUMNS:
        raise InputError(f"{place}: more than {MOST_COLUMNS:,} columns")
    there = [str(name).strip() for name in header if fold_name(name)]
    keys = [fold_name(name) for name in there]
    findings = []
    for name in dict.fromkeys(wanted):
        if keys.count(fold_name(name)) > 1:
            findings.append(
                f"{place}: {keys.count(fold_name(name))} columns are called {name!r}; rename all but one"
            )
        elif fold_name(name) not in keys:
            near = near_names(name, there)
            hint = f"did you mean {near[0]!r}? " if near else ""
            known = ", ".join(display_value(one).strip("'\"") for one in there[:20]) or "none"
            findings.append(f"{place}: no column {name!r}; {hint}there are {known}")
    if findings:
        raise InputError(*findings)


def _named(rows: Lines, keys: Sequence[str], *, is_text: bool) -> Named:
    """Yield rows by the names of their columns; one of text with more values than columns is none."""
    for line, row in rows:
        if isinstance(row, str | Mapping):
            yield line, row
        elif is_text and any(value not in (None, "") for value in row[len(keys) :]):
            yield line, f"{len(row)} cells for {len(keys)} columns; is there a delimiter within a text?"
        else:
            yield line, {key: value for key, value in zip(keys, row, strict=False) if key}


def _of_objects(path: Path, wanted: Sequence[str]) -> InputTable:
    """Return lines of JSON as a table: its columns are all keys of them."""
    rows: list[tuple[int, Mapping[str, Any] | str]] = []
    columns: dict[str, str] = {}
    for place, one in json_objects(path):
        if isinstance(one, str):
            rows.append((int(place), one.replace("with a question ", "")))
            continue
        for name in one:
            columns.setdefault(name, fold_name(name))
        rows.append((int(place), {columns[name]: value for name, value in one.items()}))
    if not rows:
        raise InputError(f"{path}: it holds nothing")
    if not columns:
        first = next(row for _, row in rows if isinstance(row, str))
        raise InputError(
            f"{path}:{rows[0][0]}: {first}; {len(rows):,} lines like it"
            if len(rows) > 1
            else f"{path}:{rows[0][0]}: {first}"
        )
    _check_columns(str(path), list(columns), wanted)
    return InputTable(tuple(columns), iter(rows))


def display_value(value: Any, most: int = 60) -> str:
    """Return a value for a message: short, on one line.

    >>> display_value("a  b", 3), display_value("abcd", 3), display_value(["a"])
    ("'a b'", "'abc…'", '["a"]')
    """
    if isinstance(value, str):
        plain = " ".join(value.split())
        return repr(plain if len(plain) <= most else plain[:most] + "…")
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= most else text[:most] + "…"

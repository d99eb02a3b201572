"""Opens a spreadsheet of whatever kind: a workbook, a table of text, lines of JSON."""

from __future__ import annotations

import ast
import io
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from rag_assay.crawlers.readers.files import as_text
from rag_assay.crawlers.readers.table import delimiter
from rag_assay.evals.question_sets.readers.table import json_objects, rows_of_text
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.office_packages import KINDS, MAX_UNPACKED, why_not
from rag_assay.warehouse.suggestions import did_you_mean, near_names
from rag_assay.warehouse.validation_errors import NAME_PATTERN

MOST_ITEMS, DEPTH = 10_000, 6
EXCEL_CELL = 32_767  # characters that a cell of Excel holds: longer texts are cut there
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>[uUbB]?(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"))
    |(?P<number>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan\b|inf\b))
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>[\[\](){},:=]))""",
    re.VERBOSE | re.DOTALL,
)
_BETWEEN = {"}": ":", "name)": "="}  # closing sign -> what stands between a name and its value
_WORDS = {"None": None, "null": None, "True": True, "true": True, "False": False, "false": False}


def looks_listed(text: str) -> bool:
    """
    >>> [looks_listed(one) for one in ("['a']", "(508, 170)", "[]", "[1] as said there", "(so he says)")]
    [True, True, True, False, False]
    """
    plain = text.strip()
    closes = plain[:1] in ("[", "(") and plain.endswith(_CLOSING[plain[0]])
    return (
        closes
        and re.match(r"[\[(]\s*(?:['\"\[({\])]|[uUbB]['\"]|[-+.\d]|None\b|Document\()", plain) is not None
    )


def read_literal(text: str) -> Any:
    """
    >>> read_literal("['a', 'b']"), read_literal("(508, 170)"), read_literal("['a' 'b']")
    (['a', 'b'], (508, 170), ['a', 'b'])
    """
    plain = text.strip()
    if plain.startswith("["):
        try:
            return _bounded(json.loads(plain))
        except (ValueError, RecursionError):
            pass
    found, at = _parsed(plain)
    if plain[at:].strip():
        raise ValueError(f"not a list: {plain[at : at + 20]!r} stands behind its end")
    if not isinstance(found, list | tuple):
        raise ValueError("must be a list")  # noqa: TRY004 -- what a person wrote
    return found


def _bounded(value: Any) -> Any:
    if isinstance(value, list) and len(value) > MOST_ITEMS:
        raise ValueError(f"more than {MOST_ITEMS:,} items")
    return value


def _parsed(text: str) -> tuple[Any, int]:
    open_ones: list[tuple[str, list[Any]]] = []  # closing sign, or `name(` of an object; and what is in it
    at = n_items = 0
    while True:
        token = _token(text, at)
        kind, found, at = token.lastgroup, token[token.lastgroup or 0], token.end()
        closing, inside = open_ones[-1] if open_ones else ("", [])
        if open_ones and found in (",", *_BETWEEN.get(closing, ())):
            continue
        if kind == "sign" and found == closing[-1:]:
            value = _closed(closing, inside)
            open_ones.pop()
        else:
            n_items += 1
            if n_items > MOST_ITEMS:
                raise ValueError(f"more than {MOST_ITEMS:,} items")
            is_key = closing == "name)" and len(inside) % 2 == 0
            is_object = kind == "word" and found not in _WORDS and text[at : at + 1] == "("
            if is_key and kind == "word":
                inside.append(found)
                continue
            if is_object or (kind == "sign" and found in _CLOSING):
                if len(open_ones) >= DEPTH:
                    raise ValueError("not a list that can be read: nested too deeply")
                open_ones.append(("name)" if is_object else _CLOSING[found], []))
                at += is_object
                continue
            value = _scalar("sign" if is_key else kind, found)
        if not open_ones:
            return value, at
        open_ones[-1][1].append(value)


def _token(text: str, at: int) -> re.Match[str]:
    found = _TOKEN.match(text, at)
    if found is None or found.lastgroup is None:
        is_cut = len(text) >= EXCEL_CELL - 1
        why = f"cut at {EXCEL_CELL:,} characters, as Excel does" if is_cut else "it does not end"
        rest = text[at : at + 20].strip()
        what = why if not rest or is_cut else f"{rest!r} cannot be read"
        raise ValueError(f"not a list that can be read: {what}")
    return found


def _closed(closing: str, inside: list[Any]) -> Any:
    if closing in _BETWEEN:
        if len(inside) % 2:
            raise ValueError("not a list that can be read: a name without a value")
        return dict(zip(map(str, inside[::2]), inside[1::2], strict=True))
    return tuple(inside) if closing == ")" else inside


def _scalar(kind: str | None, found: str) -> Any:
    if kind == "text":
        return _unquoted(found)
    if kind == "number":
        return _number(found)
    if kind == "word" and found in _WORDS:
        return _WORDS[found]
    what = f"{found[:20]!r} is not in quotes" if kind == "word" else f"{found!r} stands where an item should"
    raise ValueError(f"not a list that can be read: {what}")


def _unquoted(token: str) -> str:
    plain = token.lstrip("uUbB")
    try:
        found = ast.literal_eval(plain)  # one text in quotes: no more than that can be in it
    except (ValueError, SyntaxError):  # a line break within, or a backslash that escapes nothing
        return plain[1:-1]
    return str(found)


def _number(token: str) -> int | float:
    if re.fullmatch(r"[-+]?\d{1,18}", token):
        return int(token)
    value = float(token)
    return value if math.isfinite(value) else math.nan


MOST = 60  # characters of a name
NO_ITEM = "none"  # what an empty list is called: no method, no model
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "o", "&": "+"})


def value_of(cell: Any) -> Any:
    if isinstance(cell, str) and looks_listed(cell):
        try:
            return read_literal(cell)
        except ValueError:
            return cell.strip()
    return cell.strip() if isinstance(cell, str) else cell


def said(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def key_name(value: Any) -> str:
    """Return a name for keys: small letters, digits, `-` and `+`; list items are joined by `+`.

    >>> key_name(["keyword", "time_weighted"]), key_name((508, 170)), key_name("128/42"), key_name([])
    ('keyword+time_weighted', '508-170', '128-42', 'none')
    >>> key_name("Größe 1,5"), key_name("検索")
    ('groesse-1-5', 'x-80e9ed3a')
    """
    if isinstance(value, list | tuple) and not value:
        return NO_ITEM
    if isinstance(value, list):
        return _fitted("+".join(key_name(one) for one in value), value)
    if isinstance(value, tuple):
        return _fitted("-".join(key_name(one) for one in value), value)
    text = unicodedata.normalize("NFKC", said(value)).lower().translate(_SPELLED)
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _fitted(re.sub(r"[^a-z0-9_+]+", "-", plain).strip("-+_"), value)


def _fitted(name: str, value: Any) -> str:
    if re.fullmatch(NAME_PATTERN, name) and len(name) <= MOST:
        return name
    ending = digest(said(value))[:8]
    short = name[: MOST - 9].strip("-+_")
    return f"{short}-{ending}" if re.fullmatch(NAME_PATTERN, short) else f"x-{ending}"


def is_missing(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip())


def chosen(values: Mapping[str, str], value: Any) -> str | None:
    wanted = said(value)
    return next((name for words, name in values.items() if said(value_of(words)) == wanted), None)


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
    """Stands for the value of a cell that cannot be used."""

    reason: str


def usable(value: Any) -> Any:
    if isinstance(value, UnusableCell):
        raise ValueError(value.reason)  # noqa: TRY004 -- what a person wrote
    return value


@dataclass
class Worksheet:
    """rows: line, from 1, and values of each non-empty row; notes: complete once the rows have been read"""

    rows: Iterator[tuple[int, Sequence[Any]]]
    notes: list[str] = field(default_factory=list)


def open_worksheet(path: Path, name: str | None, *, verbatim: bool = False) -> Worksheet:
    """Formulas are read as computed last. name: None: the only filled one; verbatim: texts as they are"""
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
    return _filled(_opened(path)[1])


def _filled(book: Any) -> list[str]:
    return [
        sheet.title
        for sheet in book.worksheets
        if any(any(row) for _, row in zip(range(1000), sheet.iter_rows(values_only=True), strict=False))
    ]


def _chosen(path: Path, book: Any, name: str | None) -> str:
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
    notes: list[str] = []
    merged = _Merged(path, data)
    hidden = sum(1 for _ in _HIDDEN.finditer(data))
    if hidden:
        notes.append(f"{path.name}: {hidden} rows of it are hidden; they were read like the others")
    formulas = _formulas(path, body, sheet.title) if _FORMULA.search(data) else None
    rows = _rows(path, sheet, merged, formulas, notes)
    if not verbatim:
        rows = ((line, [_as_excel_shows(value) for value in values]) for line, values in rows)
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


def _as_excel_shows(value: Any) -> Any:
    if isinstance(value, str):
        if value in _ERRORS:
            return UnusableCell(f"the error {value} of a formula")
        if "\r" in value or "_x000D_" in value:
            return value.replace("_x000D_\n", "\n").replace("_x000D_", "\n").replace("\r\n", "\n")
    return value


def _formulas(path: Path, body: bytes, name: str) -> Iterator[list[int]]:
    from openpyxl import load_workbook

    try:
        sheet = load_workbook(BytesIO(body), read_only=True, data_only=False)[name]
        sheet.reset_dimensions()
        for row in sheet.iter_rows():
            yield [place for place, cell in enumerate(row) if getattr(cell, "data_type", "") == "f"]
    except Exception as error:
        raise _damaged(path, error) from error


class _Range(NamedTuple):
    """Merged cells; rows and columns from 1, the last ones included."""

    top: int
    left: int
    bottom: int
    right: int
    where: str


class _Merged:
    """Merged cells of a worksheet; only the first holds a value."""

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
        """Put `UnusableCell` for each covered empty cell; rows come in order."""
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
    """rows: line and values by folded names, or why it is no row; notes: complete after the rows"""

    columns: tuple[str, ...]
    rows: Named
    notes: list[str] = field(default_factory=list)


def fold_name(name: Any) -> str:
    text = "" if name is None or isinstance(name, UnusableCell) else str(name)
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def open_table(path: Path, wanted: Sequence[str] = (), worksheet: str | None = None) -> InputTable:
    """Find the row that names the wanted columns; without any, the first row with two texts."""
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
    text = decode_table(path, body)
    return _with_header(path, _text_rows(path, text, wanted), wanted, [], is_text=True)


def decode_table(path: Path, body: bytes) -> str:
    try:
        with as_text(io.BytesIO(body), newline="") as file:
            return file.read().removeprefix("\ufeff")
    except (ValueError, LookupError) as error:
        raise InputError(f"{path}: {error}; save it as CSV in UTF-8, or as .xlsx") from error


def _text_rows(path: Path, text: str, wanted: Sequence[str]) -> Lines:
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
    for line, row in rows:
        if isinstance(row, str | Mapping):
            yield line, row
        elif is_text and any(value not in (None, "") for value in row[len(keys) :]):
            yield line, f"{len(row)} cells for {len(keys)} columns; is there a delimiter within a text?"
        else:
            yield line, {key: value for key, value in zip(keys, row, strict=False) if key}


def _of_objects(path: Path, wanted: Sequence[str]) -> InputTable:
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
        more = f"; {len(rows):,} lines like it" if len(rows) > 1 else ""
        raise InputError(f"{path}:{rows[0][0]}: {first}{more}")
    _check_columns(str(path), list(columns), wanted)
    return InputTable(tuple(columns), iter(rows))


def display_value(value: Any, most: int = 60) -> str:
    """
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

"""What is kept of an imported spreadsheet, and where.

A study that was imported lies in `<home>/imports/<study>/`:

    study.yaml          a study file like any other; written once, then the person's own
    questions.jsonl     the questions of all of its spreadsheets
    sheets/<name>/      a sheet: rows.parquet (`schemas.IMPORTED`) and sheet.json (`Sheet`)

A spreadsheet is put there as a whole, or not at all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import polars as pl
from pydantic import AfterValidator, TypeAdapter
from pydantic.dataclasses import dataclass

from rag_assay.warehouse.atomic_write import write_file
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import CorruptFileError, InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet, write_batches
from rag_assay.warehouse.validation_errors import NAME_PATTERN, NAME_RULE

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

AXES = ("chunking", "embedder", "retriever", "generator")
UNSAID = "-"  # name on an axis that the spreadsheet does not give

ROWS, SHEET, STUDY_FILE, QUESTIONS_FILE = "rows.parquet", "sheet.json", "study.yaml", "questions.jsonl"
SHEETS = "sheets"
AT_ONCE = 5_000  # rows of a spreadsheet that are put into a frame at once
Row = dict[str, Any]  # a row of `schemas.IMPORTED`


Text = Annotated[str, AfterValidator(encodable)]


@dataclass(frozen=True)
class Sheet:
    """Origin of a spreadsheet's rows; rejects, notes: `FILE:LINE: text`"""

    name: Text
    file: Text
    sha256: str
    mapping: str
    rows: int
    rejects: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()


_SHEET = TypeAdapter(Sheet)


class StoredSheet(NamedTuple):
    """A spreadsheet of an imported study, and its rows in the order of their lines."""

    sheet: Sheet
    rows: pl.DataFrame


def imported_files(home: Home) -> list[Path]:
    return sorted(path.resolve() for path in home.root.glob(f"imports/*/{STUDY_FILE}") if path.is_file())


def imports_folder(home: Home, study: str) -> Path:
    return home.root / "imports" / study


def cell_key(study: str, row: Mapping[str, Any]) -> str:
    name = ".".join([study, row["chunking"], row["embedder"], row["retriever"], row["generator"]])
    return name if row["replicate"] == 1 else f"{name}.{row['replicate']}"


def read_sheets(home: Home, study: str) -> list[StoredSheet]:
    folders = sorted((imports_folder(home, study) / SHEETS).glob(f"[!.]*/{SHEET}"))
    return [StoredSheet(_sheet(path), _rows(path.with_name(ROWS))) for path in folders]


def sheet_facts(folder: Path) -> list[Sheet]:
    return [_sheet(path) for path in sorted((folder / SHEETS).glob(f"[!.]*/{SHEET}"))]


def write_sheet(home: Home, study: str, sheet: Sheet, rows: Sequence[Row]) -> None:
    """Add a spreadsheet, or replace the one of its name; a new one appears with both files at once."""
    folder = imports_folder(home, study) / SHEETS / sheet.name
    counted = replace(sheet, rows=len(rows))
    if (folder / SHEET).is_file():
        _write_rows(rows, folder / ROWS)
        write_sheet_facts(home, study, counted)
        return
    with _building(folder) as new:
        _write_rows(rows, new / ROWS)
        (new / SHEET).write_bytes(_facts(counted))


def write_sheet_facts(home: Home, study: str, sheet: Sheet) -> None:
    write_file(imports_folder(home, study) / SHEETS / sheet.name / SHEET, _facts(sheet))


def write_questions(home: Home, study: str) -> None:
    found: dict[str, str] = {}
    columns = ("question_id", "question", "ground_truth", "language")
    for stored in read_sheets(home, study):
        first = stored.rows.select(columns).unique("question_id", keep="first", maintain_order=True)
        for row in first.iter_rows(named=True):
            if row["question_id"] not in found:
                named = {"id": row["question_id"], **{name: row[name] for name in columns[1:] if row[name]}}
                found[row["question_id"]] = json.dumps(named, ensure_ascii=False) + "\n"
    replace_text(imports_folder(home, study) / QUESTIONS_FILE, "".join(found.values()))


def replace_text(path: Path, text: str) -> bool:
    data = text.encode("utf-8")
    if path.is_file() and path.read_bytes() == data:
        return False
    write_file(path, data)
    return True


def _write_rows(rows: Sequence[Row], path: Path) -> None:
    from rag_assay.warehouse.schemas import IMPORTED

    batches = (frame(list(rows[at : at + AT_ONCE]), IMPORTED) for at in range(0, len(rows), AT_ONCE))
    write_batches(batches, IMPORTED, path)


def _rows(path: Path) -> pl.DataFrame:
    from rag_assay.warehouse.schemas import IMPORTED

    try:
        return read_parquet(path).select(list(IMPORTED))
    except (CorruptFileError, pl.exceptions.PolarsError) as error:
        raise CorruptFileError(f"{path}: damaged; delete its folder and import the sheet again") from error


def _facts(sheet: Sheet) -> bytes:
    return _SHEET.dump_json(sheet, indent=1)


def _sheet(path: Path) -> Sheet:
    try:
        return _SHEET.validate_json(path.read_bytes())
    except ValueError as error:
        raise CorruptFileError(f"{path}: damaged; delete its folder and import the sheet again") from error


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    new = folder.with_name(f".{folder.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    new.mkdir(parents=True)
    try:
        yield new
        shutil.rmtree(folder, ignore_errors=True)  # one that lacks a file
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


_HELD = 2  # spreadsheets whose rows are held
_LOOKED_AT = 64  # spreadsheets whose digests are
_PLACE = (*AXES, "replicate")
_SAID = ("question_id", "answer", "contexts")


Axes = tuple[str, str, str, str]  # chunking, embedder, retriever and generator


class SheetCell(NamedTuple):
    """A combination of the axes in a spreadsheet."""

    chunking: str
    embedder: str
    retriever: str
    generator: str
    replicates: int = 1

    @property
    def axes(self) -> Axes:
        return self.chunking, self.embedder, self.retriever, self.generator


class SheetRow(NamedTuple):
    """A question in one replicate of a cell; answer: None: not answered, empty: the model wrote nothing"""

    question_id: str
    answer: str | None
    contexts: tuple[str, ...]


Place = tuple[str, str, str, str, int]  # chunking, embedder, retriever, generator and replicate


def sheet_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{SHEETS}/[!.]*/{ROWS}"))


def sheet_cells(folder: Path) -> list[SheetCell]:
    files = sheet_files(folder)
    if not files:
        raise InputError(f"there is no sheet in {folder}; `assay ratings import` puts one there")
    names = pl.concat([_named(path) for path in files])
    for axis in AXES:
        kept = () if axis == "generator" else (UNSAID,)
        for name, sheet in names.unique(axis, keep="first", maintain_order=True)[[axis, "sheet"]].iter_rows():
            if name not in kept and not (name and re.fullmatch(NAME_PATTERN, name)):
                raise InputError(f"the sheet {sheet} has a {axis} `{name}`: {NAME_RULE}")
    _check_once(names, files)
    found = names.group_by(AXES, maintain_order=True).agg(pl.col("replicate").max())
    return [SheetCell(*row) for row in found.iter_rows()]


def cell_rows(folder: Path, place: Place) -> list[SheetRow]:
    files = [(path, _state(path)) for path in sheet_files(folder)]
    having = [(path, state) for path, state in files if place in _digests(path, *state)]
    return list(dict.fromkeys(row for path, state in having for row in _said(path, state, place)))


def cell_digest(folder: Path, place: Place) -> str:
    found = dict.fromkeys(_digests(path, *_state(path)).get(place) for path in sheet_files(folder))
    return digest([one for one in found if one is not None])


def axis_words(folder: Path) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for path in sheet_files(folder):
        rows = _read(path, [*AXES, "axes"])
        for axis in AXES:
            first = rows.unique(axis, keep="first", maintain_order=True).select(axis, "axes")
            for name, axes in first.iter_rows():
                words = json.loads(axes or "{}").get(axis)
                if words and words != name:
                    found.setdefault((axis, name), str(words))
    return found


def _named(path: Path, *columns: str) -> pl.DataFrame:
    rows = _read(path, [*_PLACE, "question_id", *columns])
    return rows.with_columns(sheet=pl.lit(path.parent.name))


def _check_once(names: pl.DataFrame, files: Sequence[Path]) -> None:
    of_question = [*_PLACE, "question_id"]
    if not names.select(pl.struct(of_question).is_duplicated().any()).item():
        return
    said = pl.concat(_named(path, "answer", "contexts") for path in files)
    contents = said.unique([*of_question, "answer", "contexts"], keep="first", maintain_order=True)
    doubled = contents.filter(pl.struct(of_question).is_duplicated())
    if doubled.is_empty():
        return
    first = doubled.row(0, named=True)
    same = doubled.filter(*(pl.col(name) == first[name] for name in of_question))
    sheets = " and ".join(dict.fromkeys(same["sheet"]))
    cell = ".".join(first[axis] for axis in AXES)
    raise InputError(
        f"the cell {cell} has two answers to {first['question_id']!r} (replicate {first['replicate']}) in "
        f"{sheets}: give one of the sheets another name for its generator, or delete its folder"
    )


@lru_cache(maxsize=_LOOKED_AT)
def _digests(path: Path, *state: int) -> Mapping[Place, str]:
    rows = {place: _said(path, state, place) for place in _held(path, *state)}
    return {place: digest(sorted(those, key=lambda row: row.question_id)) for place, those in rows.items()}


def _said(path: Path, state: tuple[int, ...], place: Place) -> list[SheetRow]:
    found = _held(path, *state)[place].iter_rows()
    rows = (SheetRow(question, answer, tuple(contexts or ())) for question, answer, contexts in found)
    return list(dict.fromkeys(rows))


@lru_cache(maxsize=_HELD)
def _held(path: Path, *_state: int) -> Mapping[tuple[Any, ...], pl.DataFrame]:
    rows = _read(path, [*_PLACE, *_SAID])
    return rows.partition_by(_PLACE, include_key=False, as_dict=True)


def _state(path: Path) -> tuple[int, ...]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _read(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    try:
        return read_parquet(path, [*columns]).select(columns)
    except (CorruptFileError, pl.exceptions.ColumnNotFoundError) as error:
        raise InputError(f"{path} cannot be read: import the sheet again, or delete its folder") from error

"""What is kept of an imported sheet, and where.

A study that was imported lies in `<home>/imports/<study>/`:

    study.yaml          a study file like any other; written once, then the person's own
    questions.jsonl     the questions of all of its sheets
    sheets/<name>/      a sheet: rows.parquet (`annotation_schemas.IMPORTED`) and sheet.json (`Sheet`)

A sheet is put there as a whole, or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rag_assay.warehouse.annotation_schemas import IMPORTED
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import frame, read_parquet, write_batches
from rag_assay.warehouse.paths import Home

ROWS, SHEET, STUDY_FILE, QUESTIONS_FILE = "rows.parquet", "sheet.json", "study.yaml", "questions.jsonl"
SHEETS = "sheets"
AT_ONCE = 5_000  # rows of a sheet that are put into a frame at once
Row = dict[str, Any]
"""A row of `annotation_schemas.IMPORTED`."""


@dataclass(frozen=True)
class Sheet:
    """Where the rows of a sheet are from.

    name: of the sheet in its study: another sheet of that name replaces it
    file: the name of the file; sha256: of its bytes
    mapping: digest of the mapping that was read by
    rows: that were taken; rejects: that were not, as `FILE:LINE: reason`
    notes: what else a reader of its figures should know, as `FILE:LINE: text`
    """

    name: str
    file: str
    sha256: str
    mapping: str
    rows: int
    rejects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class StoredSheet(NamedTuple):
    """A sheet of an imported study, and its rows in the order of their lines."""

    sheet: Sheet
    rows: pl.DataFrame


def imported_files(home: Home) -> list[Path]:
    """Return the study files that were imported into a home, by the names of their studies."""
    return sorted(path.resolve() for path in home.root.glob(f"imports/*/{STUDY_FILE}") if path.is_file())


def imports_folder(home: Home, study: str) -> Path:
    """Return the folder of an imported study."""
    return home.root / "imports" / study


def cell_key(study: str, row: Mapping[str, Any]) -> str:
    """Return the key of the cell, and replicate, that a row of `IMPORTED` is of.

    >>> row = {"chunking": "c", "embedder": "e", "retriever": "r", "generator": "g", "replicate": 2}
    >>> cell_key("s", row), cell_key("s", row | {"replicate": 1})
    ('s.c.e.r.g.2', 's.c.e.r.g')
    """
    name = ".".join([study, row["chunking"], row["embedder"], row["retriever"], row["generator"]])
    return name if row["replicate"] == 1 else f"{name}.{row['replicate']}"


def read_sheets(home: Home, study: str) -> list[StoredSheet]:
    """Return the sheets of an imported study, by name; none where there is no such study.

    Raises:
        CorruptFileError: a file of theirs is damaged.
    """
    folders = sorted((imports_folder(home, study) / SHEETS).glob(f"[!.]*/{SHEET}"))
    return [StoredSheet(_sheet(path), _rows(path.with_name(ROWS))) for path in folders]


def sheet_facts(folder: Path) -> list[Sheet]:
    """Return what is said of the sheets in the folder of an imported study, by name."""
    return [_sheet(path) for path in sorted((folder / SHEETS).glob(f"[!.]*/{SHEET}"))]


def write_sheet(home: Home, study: str, sheet: Sheet, rows: Sequence[Row]) -> None:
    """Put a sheet among those of its study, in place of one of its name.

    A new one appears with both of its files. Of one that is there, the rows are replaced at once, and then
    what is said of them.

    Args:
        home: that it is stored in.
        study: its name; the folder is made.
        sheet: what is said of it; ``rows`` of it is counted here.
        rows: of `IMPORTED`, in the order of their lines.
    """
    folder = imports_folder(home, study) / SHEETS / sheet.name
    counted = replace(sheet, rows=len(rows))
    if (folder / SHEET).is_file():
        _write_rows(rows, folder / ROWS)
        write_sheet_facts(home, study, counted)
        return
    with _building(folder) as new:
        _write_rows(rows, new / ROWS)
        (new / SHEET).write_text(_facts(counted), encoding="utf-8")


def write_sheet_facts(home: Home, study: str, sheet: Sheet) -> None:
    """Replace what is said of a sheet that is there, its rows left as they are."""
    with atomic_write(imports_folder(home, study) / SHEETS / sheet.name / SHEET) as new:
        new.write_text(_facts(sheet), encoding="utf-8")


def write_questions(home: Home, study: str) -> None:
    """Write the questions of all sheets of a study, each once; a file that holds them already stays.

    A question is as the first sheet, by name, has it first.
    """
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
    """Let a file hold a text; say whether it held another one, or none."""
    data = text.encode("utf-8")
    if path.is_file() and path.read_bytes() == data:
        return False
    with atomic_write(path) as new:
        new.write_bytes(data)
    return True


def _write_rows(rows: Sequence[Row], path: Path) -> None:
    batches = (frame(list(rows[at : at + AT_ONCE]), IMPORTED) for at in range(0, len(rows), AT_ONCE))
    write_batches(batches, IMPORTED, path)


def _rows(path: Path) -> pl.DataFrame:
    try:
        return read_parquet(path).select(list(IMPORTED))
    except (CorruptFileError, pl.exceptions.PolarsError) as error:
        raise CorruptFileError(f"{path}: damaged; delete its folder and import the sheet again") from error


def _facts(sheet: Sheet) -> str:
    texts = {name: encodable(value) for name, value in asdict(sheet).items() if isinstance(value, str)}
    lists = {name: [encodable(one) for one in getattr(sheet, name)] for name in ("rejects", "notes")}
    return json.dumps({**asdict(sheet), **texts, **lists}, indent=1, ensure_ascii=False)


def _sheet(path: Path) -> Sheet:
    try:
        found = json.loads(path.read_text("utf-8"))
        known = {one.name: found[one.name] for one in fields(Sheet) if one.name in found}
        return Sheet(**known | {name: tuple(known.get(name, ())) for name in ("rejects", "notes")})
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptFileError(f"{path}: damaged; delete its folder and import the sheet again") from error


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """Yield a folder beside ``folder`` that takes its place when the block ends well."""
    new = folder.with_name(f".{folder.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    new.mkdir(parents=True)
    try:
        yield new
        shutil.rmtree(folder, ignore_errors=True)  # one that lacks a file
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)

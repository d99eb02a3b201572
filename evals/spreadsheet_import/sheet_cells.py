"""Reads the sheets of an imported study as cells: which there are, and the rows of each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import polars as pl

from rag_assay.evals.spreadsheet_import.bundle import ROWS, SHEETS
from rag_assay.evals.spreadsheet_import.mapping import AXES, UNSAID
from rag_assay.warehouse.errors import CorruptFileError, InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.validation_errors import NAME_PATTERN, NAME_RULE

_HELD = 2  # sheets whose rows are held
_LOOKED_AT = 64  # sheets whose digests are
_PLACE = (*AXES, "replicate")
_SAID = ("question_id", "answer", "contexts")


Axes = tuple[str, str, str, str]
"""Chunking, embedder, retriever and generator."""


class SheetCell(NamedTuple):
    """One combination of the axes that a sheet has rows of.

    replicates: the most rows of it that one question has
    """

    chunking: str
    embedder: str
    retriever: str
    generator: str
    replicates: int = 1

    @property
    def axes(self) -> Axes:
        """The names on its axes."""
        return self.chunking, self.embedder, self.retriever, self.generator


class SheetRow(NamedTuple):
    """What a sheet has of one question in one replicate of a cell.

    answer: None: nothing was answered; empty: the model wrote nothing
    contexts: texts of the passages, best first; empty where the sheet has none
    """

    question_id: str
    answer: str | None
    contexts: tuple[str, ...]


Place = tuple[str, str, str, str, int]
"""Chunking, embedder, retriever, generator and replicate."""


def sheet_files(folder: Path) -> list[Path]:
    """Return the files of rows in the folder of an imported study, by the names of their sheets."""
    return sorted(folder.glob(f"{SHEETS}/[!.]*/{ROWS}"))


def sheet_cells(folder: Path) -> list[SheetCell]:
    """Return the cells that the sheets of a folder have rows of: sheet by sheet, in the order of their lines.

    Raises:
        InputError: there is no sheet; one of them cannot be read, or has names that no key can hold; or two
            rows are the same replicate of a question in a cell.
    """
    files = sheet_files(folder)
    if not files:
        raise InputError(f"there is no sheet in {folder}; `assay ratings import` puts one there")
    names = pl.concat([_named(path) for path in files])
    for axis in AXES:
        _check_names(names, axis)
    _check_once(names, files)
    found = names.group_by(AXES, maintain_order=True).agg(pl.col("replicate").max())
    return [SheetCell(*row) for row in found.iter_rows()]


def cell_rows(folder: Path, place: Place) -> list[SheetRow]:
    """Return the rows of one replicate of a cell, in the order of sheets and lines."""
    files = [(path, _state(path)) for path in sheet_files(folder)]
    having = [(path, state) for path, state in files if place in _digests(path, *state)]
    return list(dict.fromkeys(row for path, state in having for row in _held(path, *state).of(place)))


def cell_digest(folder: Path, place: Place) -> str:
    """Return the digest of what the sheets say of one replicate of a cell: questions, answers, contexts.

    Lines, scores and other cells are no part of it, nor in which sheet it stands, nor in how many.
    """
    found = dict.fromkeys(_digests(path, *_state(path)).get(place) for path in sheet_files(folder))
    return digest([one for one in found if one is not None])


def axis_words(folder: Path) -> dict[tuple[str, str], str]:
    """Return (axis, name) -> what the sheets themselves say for the name, where that is something else."""
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


def _named(path: Path) -> pl.DataFrame:
    """Return the axes, replicates and questions of a sheet's rows, and the sheet's name."""
    return _read(path, [*_PLACE, "question_id"]).with_columns(pl.lit(path.parent.name).alias("sheet"))


def _check_names(names: pl.DataFrame, axis: str) -> None:
    kept = () if axis == "generator" else (UNSAID,)
    for name, sheet in names.unique(axis, keep="first", maintain_order=True)[[axis, "sheet"]].iter_rows():
        if name not in kept and not (name and re.fullmatch(NAME_PATTERN, name)):
            raise InputError(f"the sheet {sheet} has a {axis} `{name}`: {NAME_RULE}")


def _check_once(names: pl.DataFrame, files: Sequence[Path]) -> None:
    """Refuse two answers of one replicate to a question; rows of several annotators have one between them."""
    of_question = [*_PLACE, "question_id"]
    if not names.select(pl.struct(of_question).is_duplicated().any()).item():
        return
    contents = pl.concat(
        _read(path, [*of_question, "answer", "contexts"]).with_columns(
            pl.lit(path.parent.name).alias("sheet")
        )
        for path in files
    ).unique([*of_question, "answer", "contexts"], keep="first", maintain_order=True)
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
    """Digest the rows of each place of a sheet, once for as long as its file is the same."""
    held = _held(path, *state)
    return {place: digest(sorted(held.of(place), key=lambda row: row.question_id)) for place in held.places}


class _Held(NamedTuple):
    """The rows of a sheet, and which of them each place has."""

    rows: pl.DataFrame
    places: Mapping[Place, pl.Series]

    def of(self, place: Place) -> list[SheetRow]:
        """Return the rows of a place; those of several annotators are one."""
        found = self.rows[self.places[place]].select(_SAID).iter_rows()
        rows = (SheetRow(question, answer, tuple(contexts or ())) for question, answer, contexts in found)
        return list(dict.fromkeys(rows))


@lru_cache(maxsize=_HELD)
def _held(path: Path, *_state: int) -> _Held:
    """Read a sheet, once for as long as its file is the same."""
    rows = _read(path, [*_PLACE, *_SAID])
    numbered = rows.select(_PLACE).with_row_index("row").group_by(_PLACE, maintain_order=True).agg("row")
    places = {(one[0], one[1], one[2], one[3], one[4]): pl.Series(one[5]) for one in numbered.iter_rows()}
    return _Held(rows, places)


def _state(path: Path) -> tuple[int, ...]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _read(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    try:
        return read_parquet(path, [*columns]).select(columns)
    except (CorruptFileError, pl.exceptions.ColumnNotFoundError) as error:
        raise InputError(f"{path} cannot be read: import the sheet again, or delete its folder") from error

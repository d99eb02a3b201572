"""Reads a sheet of ours that came back: a workbook or a CSV file, sorted, widened, saved by any program."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rag_assay.crawlers.readers.files import as_text
from rag_assay.evals.human.spreadsheets.filled_rows import Filled, FilledRow
from rag_assay.evals.human.spreadsheets.formula_escaping import BOOK, CSV, CellEncoding
from rag_assay.evals.human.spreadsheets.heading import SheetHeading, is_heading, read_heading
from rag_assay.evals.human.spreadsheets.rating_base import Asked
from rag_assay.evals.human.spreadsheets.table import COMMENT, ITEM, SCORE, SCORES, part_name
from rag_assay.evals.question_sets.readers.table import rows_of_text
from rag_assay.evals.spreadsheet_import.workbook import UnusableCell, open_worksheet
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import read_bounded

MAX_TEXT = 300_000_000  # bytes
HEAD = 60  # rows among which the heading and the names of the columns are looked for
Line = tuple[int, Sequence[Any]]


def read_sheet(path: Path) -> Filled:
    """Return what stands in a sheet.

    Raises:
        InputError: it cannot be read, or has no heading, or no column for the items or for a score.
    """
    if path.suffix.lower() == ".csv":
        return _of_text(path)
    found = open_worksheet(path, SCORES, verbatim=True)
    rows = list(found.rows)
    return _filled(path, rows, BOOK, [one for one in found.notes if "hidden" not in one])


def _of_text(path: Path) -> Filled:
    try:
        with as_text(io.BytesIO(read_bounded(path, MAX_TEXT)), newline="") as file:
            text = file.read().removeprefix("\ufeff")
    except (ValueError, LookupError) as error:
        raise InputError(f"{path}: {error}; save it as CSV in UTF-8, or as .xlsx") from error
    rows: list[Line] = []
    for line, row in rows_of_text(text, _parted_by(text)):
        if isinstance(row, str):
            raise InputError(f"{path}:{line}: {row}")
        rows.append((line, row))
    return _filled(path, rows, CSV, [])


def _parted_by(text: str) -> str:
    """Return the sign that parts the names of the columns: a program may save with another than ours."""
    widths = {}
    for sign in ",;\t":
        head = [row for _, row in islice(rows_of_text(text, sign), HEAD) if not isinstance(row, str)]
        widths[sign] = max((len(row) for row in head if ITEM in map(_folded, row)), default=0)
    return max(widths, key=lambda sign: widths[sign])


@dataclass(frozen=True)
class _Columns:
    """Where what stands; places from 0."""

    item: int
    texts: dict[str, list[int]]
    scores: dict[Asked, int]
    comment: list[int]


def _filled(path: Path, rows: Sequence[Line], form: CellEncoding, notes: list[str]) -> Filled:
    heading = _heading(path, rows)
    start, columns = _columns(path, rows, heading)
    found: list[FilledRow] = []
    rejects: list[str] = []
    for line, row in rows[start:]:
        place = f"{path.name}:{line}"
        read = _row(place, row, columns, form)
        if isinstance(read, str):
            rejects.append(read)
        elif read is not None:
            found.append(read)
    return Filled(heading, found, rejects, notes)


def _heading(path: Path, rows: Iterable[Line]) -> SheetHeading:
    for line, row in islice(rows, HEAD):
        for cell in row:
            text = CSV.read(cell).strip() if isinstance(cell, str) else ""
            if is_heading(text):
                try:
                    return read_heading(text)
                except ValueError as error:
                    raise InputError(
                        f"{path}:{line}: what the sheet says of itself was changed ({error}); export the "
                        "queue again, and copy the scores into the new file"
                    ) from error
    raise InputError(f"{path}: the line that says of which queue it is is missing; export the queue again")


def _columns(path: Path, rows: Sequence[Line], heading: SheetHeading) -> tuple[int, _Columns]:
    """Return where the rows of items begin, and where the columns are."""
    for start, (line, row) in enumerate(rows[:HEAD]):
        names = [_folded(cell) for cell in row]
        if ITEM in names:
            return start + 1, _found_columns(f"{path}:{line}", names, heading)
    raise InputError(f"{path}: no row names the columns: one is called `{ITEM}`; export the queue again")


def _found_columns(place: str, names: list[str], heading: SheetHeading) -> _Columns:
    scores = {
        (rubric, criterion or None): _score_name(rubric, criterion)
        for rubric, worded in heading.rubrics.items()
        for criterion in worded.criteria
    }
    known = {ITEM, *scores.values()}
    findings = [
        f"{place}: {names.count(name)} columns are called `{name}`; take one away"
        for name in sorted(set(names))
        if names.count(name) > 1 and (name in known or _is_text(name))
    ]
    findings += [
        f"{place}: the column `{name}` is missing; undo its removal, or export the queue again"
        for name in scores.values()
        if name not in names
    ]
    if findings:
        raise InputError(*findings)
    places = {name: place for place, name in enumerate(names) if name}
    texts: dict[str, list[int]] = {}
    for name in places:
        if _is_text(name) and "(part " not in name:
            texts[name] = list(_parts(places, name))
    comment = texts.pop(COMMENT, [])
    return _Columns(places[ITEM], texts, {asked: places[name] for asked, name in scores.items()}, comment)


def _score_name(rubric: str, criterion: str) -> str:
    return _folded(SCORE + ".".join(part for part in (rubric, criterion) if part))


def _is_text(name: str) -> bool:
    """Return whether a column of ours has this name; columns that a person added are their own."""
    base = name.partition(" (part ")[0]
    first, _, rest = base.partition(" ")
    return base in {"question", "answer", "second answer", "ground truth", COMMENT} or (
        first == "passage" and rest.isdigit()
    )


def _parts(places: dict[str, int], name: str) -> Iterator[int]:
    number = 1
    while (place := places.get(part_name(name, number))) is not None:
        yield place
        number += 1


def _row(place: str, row: Sequence[Any], columns: _Columns, form: CellEncoding) -> FilledRow | str | None:
    """Return a row; why it is none; or None where nothing of ours stands in it."""

    def cell(at: int) -> Any:
        return row[at] if at < len(row) else None

    token = cell(columns.item)
    scores = {asked: cell(at) for asked, at in columns.scores.items()}
    token = form.read(token).strip() if isinstance(token, str) else token
    if token in (None, ""):
        if all(_is_empty(one) for one in scores.values()):
            return None
        return f"{place}: a score in a row without an `{ITEM}`: it cannot be told of what it is"
    if not isinstance(token, str):
        return (
            f"{place}: `{ITEM}` was changed to {token.reason if isinstance(token, UnusableCell) else token}"
        )
    texts = {name: "".join(_text(cell(at), form) for at in places) for name, places in columns.texts.items()}
    comment: object = None
    if columns.comment:
        parts = [cell(at) for at in columns.comment]
        odd = next((part for part in parts if part is not None and not isinstance(part, str)), None)
        comment = odd if odd is not None else "".join(_text(part, form) for part in parts)
    scores = {asked: form.read(one) if isinstance(one, str) else one for asked, one in scores.items()}
    return FilledRow(place, token, texts, scores, comment)


def _text(value: Any, form: CellEncoding) -> str:
    if isinstance(value, str):
        return form.read(value)
    return "" if value is None else str(value.reason if isinstance(value, UnusableCell) else value)


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _folded(value: object) -> str:
    return " ".join(CSV.read(value).casefold().split()) if isinstance(value, str) else ""

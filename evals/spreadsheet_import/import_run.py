"""Imports a sheet: read, mapped, checked, settled, and kept as a whole."""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rag_assay.evals.question_sets.question_files import short_questions
from rag_assay.evals.rubrics.rubric import metric_name
from rag_assay.evals.spreadsheet_import.bundle import (
    STUDY_FILE,
    Row,
    Sheet,
    StoredSheet,
    imports_folder,
    read_sheets,
    write_questions,
    write_sheet,
    write_sheet_facts,
)
from rag_assay.evals.spreadsheet_import.deduplication import OtherSheets, Settled, deduplicate_rows
from rag_assay.evals.spreadsheet_import.key_names import key_name
from rag_assay.evals.spreadsheet_import.mapping import AXES, ReadMapping, SheetMapping, with_rubrics
from rag_assay.evals.spreadsheet_import.sheet_rows import ParsedRow, RowReader, fallen_together
from rag_assay.evals.spreadsheet_import.sheet_scores import ScoreChanges, changes, scores_of
from rag_assay.evals.spreadsheet_import.study_text import write_study
from rag_assay.evals.spreadsheet_import.tables import open_table
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.identity import sha256_file
from rag_assay.warehouse.paths import Home

MOST_ROWS = 200_000
MOST_TOLD = 100  # rejects of a sheet that a message has
_SAME_ROWS = (
    *("question_id", "question", "language", "ground_truth", "answer", "contexts", *AXES, "replicate"),
    *("axes", "annotator", "scores", "comment", "scored_at"),
)
"""What a row says; the line at which it stands is not among it."""


@dataclass(frozen=True)
class ImportSummary:
    """What came of an import.

    study, sheet: under which names it is kept
    study_file: of the study that it became
    rows: that were taken; doubles: that say what another one says, and count once
    questions, cells, answers: how many different ones
    scores: metric -> value -> how many rows
    added, corrected, withdrawn: scores that were new, changed, or stand in the sheet no longer
    rejects, notes: as `FILE:LINE: text`
    changed: whether anything is kept otherwise than before
    """

    study: str
    sheet: str
    study_file: Path
    rows: int
    doubles: int
    questions: int
    cells: int
    answers: int
    scores: Mapping[str, Mapping[float, int]]
    added: int
    corrected: int
    withdrawn: int
    rejects: tuple[str, ...]
    notes: tuple[str, ...]
    changed: bool


def import_sheet(
    path: Path, mapping_path: Path, mapping: SheetMapping, home: Home, *, partial: bool = False
) -> ImportSummary:
    """Import a sheet into its study, which is made where it is not there.

    Args:
        path: of the sheet.
        mapping_path: of the mapping file, for messages.
        mapping: what its columns mean.
        home: where the study is kept.
        partial: take the rows that can be taken; else one reject is enough for nothing to be kept

    Raises:
        InputError: the sheet cannot be read; or all rejects, unless ``partial``.
    """
    if mapping.cell is None:
        text = "`cell` is missing: say who answered, as in `cell: {generator: llama-2-13b}`"
        raise InputError(Mistake("missing", mapping_path, 1, text))
    folder = imports_folder(home, mapping.study)
    read = with_rubrics(mapping_path, mapping, folder / STUDY_FILE)
    drafts, rejects, notes = read_drafts(path, read)
    with alone(home):
        stored = read_sheets(home, mapping.study)
        name = mapping.sheet or _name_of(path, stored, drafts)
        found = deduplicate_rows(drafts, OtherSheets(stored, name))
        rejects = sorted([*rejects, *found.rejects])
        told = tuple(f"{path.name}:{line}: {text}" for line, text in rejects)
        check_rejects(path, rejects, len(found.rows), partial=partial)
        notes += [f"{path.name}:{line}: {text}" for line, text in found.notes]
        sheet = Sheet(name, path.name, sha256_file(path), mapping.digest, len(found.rows), told, tuple(notes))
        return _kept(home, read, sheet, found, stored)


def read_drafts(path: Path, read: ReadMapping) -> tuple[list[ParsedRow], list[tuple[int, str]], list[str]]:
    """Return the usable rows of a sheet, line and reason of each that is not, and what should be known.

    Raises:
        InputError: the sheet cannot be read; or two things that it says have become one name.
    """
    table = open_table(path, read.mapping.wanted(), read.mapping.worksheet)
    reader = RowReader(read)
    drafts: list[ParsedRow] = []
    rejects: list[tuple[int, str]] = []
    passed = 0
    for number, (line, row) in enumerate(table.rows, start=1):
        if number > MOST_ROWS:
            raise InputError(f"{path}: more than {MOST_ROWS:,} rows; split it into several files")
        if isinstance(row, str):
            rejects.append((line, row))
        elif reader.is_empty(row):
            passed += 1
        else:
            found = reader.draft(line, row)
            if isinstance(found, ParsedRow):
                drafts.append(found)
            else:
                rejects += [(line, text) for text in found]
    together = list(fallen_together(reader, path.name))
    if together:
        raise InputError(*together)
    if not drafts and not rejects:
        raise InputError(f"{path}: there is no row below the names of its columns")
    notes = list(table.notes)
    if passed:
        notes.append(
            f"{path.name}: {passed} rows hold nothing in the columns that are read; they were passed over"
        )
    first = {draft.question: draft.line for draft in reversed(drafts)}
    lines = sorted((line, question) for question, line in first.items())
    short = short_questions((f"line {line}", question) for line, question in lines)
    notes += [f"{path.name}: {short}"] if short else []
    return drafts, rejects, notes


def check_rejects(path: Path, rejects: Sequence[tuple[int, str]], taken: int, *, partial: bool) -> None:
    """Refuse a sheet with rejects, unless the other rows are to be taken and there are any.

    Raises:
        InputError: all rejects, each with its line.
    """
    if rejects and not partial:
        last = f"{path}: nothing was imported; --partial takes the other rows"
        raise InputError(*_shortened(path, rejects), last)
    if not taken:
        raise InputError(*_shortened(path, rejects), f"{path}: no row of it can be taken")


def _shortened(path: Path, rejects: Sequence[tuple[int, str]]) -> list[str]:
    found = [f"{path}:{line}: {text}" for line, text in rejects[:MOST_TOLD]]
    more = len(rejects) - MOST_TOLD
    return [*found, f"{path}: and {more:,} more like these"] if more > 0 else found


def name_of_file(path: Path) -> str:
    """Return the name that a sheet has by its file."""
    return key_name(path.name.rpartition(".")[0])


def _name_of(path: Path, stored: Sequence[StoredSheet], drafts: Sequence[ParsedRow]) -> str:
    """Return the name of a sheet whose mapping names none: that of its file, unless the file was renamed."""
    name = name_of_file(path)
    if any(one.sheet.name == name for one in stored):
        return name
    same = (one.sheet.name for one in stored if _is_same_by_content(one, drafts))
    return next(same, name)


def _is_same_by_content(stored: StoredSheet, drafts: Sequence[ParsedRow]) -> bool:
    if stored.sheet.rows != len({(one.place, one.content, one.annotator) for one in drafts}):
        return False
    settled_rows = deduplicate_rows(drafts, OtherSheets([stored], stored.sheet.name)).rows
    return _same(stored, settled_rows)


def _same(stored: StoredSheet, rows: Sequence[Row]) -> bool:
    """Return whether the rows of a sheet say what was kept of it, in whatever order."""
    if stored.rows.height != len(rows):
        return False
    kept = Counter(_content(row) for row in stored.rows.iter_rows(named=True))
    return kept == Counter(map(_content, rows))


def _content(row: Row) -> str:
    return repr([row[name] for name in _SAME_ROWS])


def _kept(
    home: Home, read: ReadMapping, sheet: Sheet, found: Settled, stored: Sequence[StoredSheet]
) -> ImportSummary:
    """Keep a sheet, its scores, the questions and the file of its study; each heals what a kill has left."""
    study = read.mapping.study
    before = next((one for one in stored if one.sheet.name == sheet.name), None)
    is_same = before is not None and _same(before, found.rows)
    if before is None or not is_same:
        write_sheet(home, study, sheet, found.rows)
    elif before.sheet != sheet:
        write_sheet_facts(home, study, sheet)
    scores = scores_of(study, found.rows, read.rubrics)
    new = changes(home, study, sheet.name, sheet.file, scores)
    HumanScores(home).append(new.rows)
    write_questions(home, study)
    path = imports_folder(home, study) / STUDY_FILE
    write_study(path, read)
    return _summary(read, sheet, found, new, path, changed=not is_same or bool(new.rows))


def _summary(
    read: ReadMapping, sheet: Sheet, found: Settled, new: ScoreChanges, path: Path, *, changed: bool
) -> ImportSummary:
    scores: dict[str, Counter[float]] = {}
    for row in found.rows:
        for one in row["scores"]:
            metric = metric_name(one["rubric"], one["criterion"])
            scores.setdefault(metric, Counter())[one["value"]] += 1
    cells = {tuple(row[axis] for axis in AXES) for row in found.rows}
    answers = {(*(row[axis] for axis in AXES), row["question_id"], row["replicate"]) for row in found.rows}
    return ImportSummary(
        study=read.mapping.study,
        sheet=sheet.name,
        study_file=path,
        rows=len(found.rows),
        doubles=found.doubles,
        questions=len({row["question_id"] for row in found.rows}),
        cells=len(cells),
        answers=len(answers),
        scores=scores,
        added=new.added,
        corrected=new.corrected,
        withdrawn=new.withdrawn,
        rejects=sheet.rejects,
        notes=sheet.notes,
        changed=changed,
    )


@contextmanager
def alone(home: Home) -> Iterator[None]:
    """Let one import at a time change the imported studies of a home."""
    folder = home.root / "imports"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

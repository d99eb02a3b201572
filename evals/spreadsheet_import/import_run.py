"""Imports a sheet: read, mapped, checked, settled, and kept as a whole."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_assay.evals.question_sets.question_files import short_questions, yaml_text
from rag_assay.evals.rubrics.items import item_id
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Rubric, metric_name
from rag_assay.evals.spreadsheet_import import bundle
from rag_assay.evals.spreadsheet_import.bundle import AXES
from rag_assay.evals.spreadsheet_import.mapping import (
    ParsedRow,
    ReadMapping,
    RowReader,
    SheetMapping,
    axes_text,
    fallen_together,
    with_rubrics,
)
from rag_assay.evals.spreadsheet_import.tables import key_name, open_table
from rag_assay.warehouse.components import as_written
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.identity import digest, sha256_file
from rag_assay.warehouse.locks import locked
from rag_assay.warehouse.paths import Home

HEADING = """\
Written by `assay ratings import`, once; change it as you like. Its cells are what the sheets beside it have
rows of (sheets/). Add `judges:` to have the answers judged, too (docs/judging.md)."""


def write_study(path: Path, read: ReadMapping) -> None:
    if not path.exists():
        bundle.replace_text(path, study_text(read))


def study_text(read: ReadMapping) -> str:
    language = {"language": read.mapping.language} if read.mapping.language else {}
    data: dict[str, Any] = {
        "study": read.mapping.study,
        "imports": ".",
        "questions": [{"file": bundle.QUESTIONS_FILE, **language}],
        "rubrics": {name: _written(rubric) for name, rubric in read.rubrics.items()},
        "metrics": [metric_name(*key) for key in read.criteria],
    }
    return yaml_text(data, HEADING)


def _written(rubric: Rubric) -> Any:
    if rubric == Points():
        return {rubric.kind: {}}
    return json.loads(json.dumps(as_written(rubric, exclude_none=True)))


Content = tuple[str | None, tuple[str, ...]]
Place = tuple[str, ...]
Said = tuple[Place, Content, str, str, str | None]
"""Key of a rating: place, content, annotator, rubric, criterion."""


@dataclass
class Settled:
    """The rows of `IMPORTED` that can stand together; rejects: line and reason; doubles: repeated rows"""

    rows: list[bundle.Row] = field(default_factory=list)
    rejects: list[tuple[int, str]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    doubles: int = 0


class OtherSheets:
    """What other spreadsheets of the study say, and this one at its last import."""

    def __init__(self, stored: Iterable[bundle.StoredSheet], name: str) -> None:
        self.replicates: dict[Place, dict[Content, int]] = {}
        self.before: dict[Place, dict[Content, int]] = {}
        self.scores: dict[Said, tuple[float, str]] = {}
        self.questions: dict[str, tuple[str, str]] = {}
        for one in stored:
            is_other = one.sheet.name != name
            for row in one.rows.iter_rows(named=True):
                self._add(row, one.sheet.name, is_other=is_other)

    def _add(self, row: Mapping[str, Any], sheet: str, *, is_other: bool) -> None:
        place = (*(row[axis] for axis in AXES), row["question_id"])
        content = (row["answer"], tuple(row["contexts"]))
        known = self.replicates if is_other else self.before
        known.setdefault(place, {}).setdefault(content, row["replicate"])
        if is_other:
            self.questions.setdefault(row["question_id"], (row["question"], sheet))
            for one in row["scores"]:
                said = (place, content, row["annotator"], one["rubric"], one["criterion"])
                self.scores[said] = (one["value"], f"line {row['line']} of the sheet {sheet}")


def deduplicate_rows(drafts: Sequence[ParsedRow], others: OtherSheets) -> Settled:
    """Compare the rows of a sheet with each other and with the study's other sheets; return those to keep.

    Of equal answers of one cell to one question, to equal contexts:

    - rows that agree in all else are one, and counted as doubles;
    - a row of another annotator is that annotator's score of the same answer;
    - two scores of one annotator by one criterion that differ contradict each other: neither is taken, for no
      rule can tell which one was meant.

    Unequal ones are replicates of the cell, numbered in the order of the lines; one keeps the number that it
    had when the spreadsheet was last imported.
    """
    found = Settled()
    left = _of_one_question(drafts, others, found)
    left = _without_contradictions(left, others, found)
    merged = _merged(left, found)
    numbers = _numbers(merged, others)
    found.rows = [_row(draft, numbers[draft.place][draft.content]) for draft in merged]
    _note_ground_truths(merged, found)
    return found


def _of_one_question(drafts: Sequence[ParsedRow], others: OtherSheets, found: Settled) -> list[ParsedRow]:
    first: dict[str, tuple[str, str]] = dict(others.questions)
    left = []
    for draft in drafts:
        text, where = first.setdefault(draft.question_id, (draft.question, f"line {draft.line}"))
        if text == draft.question:
            left.append(draft)
            continue
        where = where if where.startswith("line ") else f"the sheet {where}"
        found.rejects.append(
            (draft.line, f"the question id {draft.question_id} is that of another question, in {where}")
        )
    return left


def _without_contradictions(drafts: list[ParsedRow], others: OtherSheets, found: Settled) -> list[ParsedRow]:
    by_said: dict[Said, list[tuple[ParsedRow, float]]] = {}
    wrong: dict[int, str] = {}
    for draft in drafts:
        for key, value in draft.scores.items():
            by_said.setdefault((draft.place, draft.content, draft.annotator, *key), []).append((draft, value))
    for said, rows in by_said.items():
        first, value = rows[0]
        differing = [(draft, other) for draft, other in rows if other != value]
        for draft, other in differing:
            wrong.setdefault(draft.line, _contradiction(draft, said, other, value, f"line {first.line}"))
        if differing:
            draft, other = differing[0]
            wrong.setdefault(first.line, _contradiction(first, said, value, other, f"line {draft.line}"))
        elif said in others.scores and others.scores[said][0] != value:
            theirs, where = others.scores[said]
            text = _contradiction(first, said, value, theirs, where)
            hint = f"; if it is the same sheet under another name, say `sheet: {where.rpartition(' ')[2]}`"
            wrong.setdefault(first.line, text + hint)
    found.rejects += sorted(wrong.items())
    return [draft for draft in drafts if draft.line not in wrong]


def _contradiction(draft: ParsedRow, said: Said, value: float, other: float, where: str) -> str:
    what = ".".join(filter(None, said[3:]))
    return (
        f"{draft.annotator} gives the same answer {value:g} by {what} here and {other:g} in {where}: keep one"
    )


def _merged(drafts: list[ParsedRow], found: Settled) -> list[ParsedRow]:
    merged: dict[tuple[Place, Content, str], ParsedRow] = {}
    for draft in drafts:
        key = (draft.place, draft.content, draft.annotator)
        before = merged.get(key)
        if before is None:
            merged[key] = draft
            continue
        found.doubles += 1
        comments = dict.fromkeys(filter(None, [before.comment, draft.comment]))
        merged[key] = replace(
            before,
            scores={**before.scores, **draft.scores},
            comment="\n".join(comments) or None,
            scored_at=before.scored_at or draft.scored_at,
            ground_truth=before.ground_truth or draft.ground_truth,
        )
    return list(merged.values())


def _numbers(drafts: list[ParsedRow], others: OtherSheets) -> dict[Place, dict[Content, int]]:
    contents: dict[Place, dict[Content, None]] = {}
    for draft in drafts:
        contents.setdefault(draft.place, {})[draft.content] = None
    numbers: dict[Place, dict[Content, int]] = {}
    for place, those in contents.items():
        theirs = others.replicates.get(place, {})
        before = others.before.get(place, {})
        given = {one: theirs[one] for one in those if one in theirs}
        own = [one for one in those if one not in given]
        free = [n for n in range(1, len(own) + len(theirs) + 1) if n not in theirs.values()][: len(own)]
        given |= {one: before[one] for one in own if before.get(one) in free}
        left = (n for n in free if n not in given.values())
        given |= {one: next(left) for one in own if one not in given}
        numbers[place] = given
    return numbers


_COPIED = (
    *("line", "question_id", "question", "language", "ground_truth", "answer"),
    *("annotator", "comment", "scored_at"),
)


def _row(draft: ParsedRow, replicate: int) -> bundle.Row:
    return {
        **{name: getattr(draft, name) for name in _COPIED},
        **draft.names,
        "contexts": list(draft.contexts),
        "replicate": replicate,
        "axes": axes_text(draft),
        "scores": [
            {"rubric": rubric, "criterion": criterion, "value": value}
            for (rubric, criterion), value in draft.scores.items()
        ],
    }


def _note_ground_truths(drafts: list[ParsedRow], found: Settled) -> None:
    truths: dict[str, dict[str, int]] = {}
    for draft in drafts:
        if draft.ground_truth:
            truths.setdefault(draft.question_id, {}).setdefault(draft.ground_truth, draft.line)
    for lines in truths.values():
        first, *more = lines.values()
        for line in more:
            text = f"another ground truth of the question in line {first}, which counts for all of its rows"
            found.notes.append((line, text))


Key = tuple[str | None, ...]  # annotator, item, rubric, criterion, cell and question


@dataclass
class ScoreChanges:
    """What an import changes of its scores."""

    rows: list[HumanScore] = field(default_factory=list)
    added: int = 0
    corrected: int = 0
    withdrawn: int = 0

    @property
    def counts(self) -> dict[str, int]:
        return {"added": self.added, "corrected": self.corrected, "withdrawn": self.withdrawn}


def _ending(sheet: str) -> str:
    return f" (sheet {sheet})"


def scores_of(
    study: str, rows: Iterable[bundle.Row], rubrics: Mapping[str, Rubric]
) -> Iterator[tuple[int, HumanScore]]:
    now = datetime.now(UTC)
    for row in rows:
        item = item_id(row["question"], row["answer"], row["contexts"])
        shared = {name: row[name] for name in ("annotator", "comment", "question_id")}
        shared |= {"cell": bundle.cell_key(study, row), "scored_at": row["scored_at"] or now}
        for score in row["scores"]:
            version = rubrics[score["rubric"]].version
            yield (
                row["line"],
                HumanScore(score_id="", study=study, item_id=item, rubric_version=version, **score, **shared),
            )


def count_scores(scores: Iterable[tuple[int, HumanScore]]) -> dict[str, Counter[float]]:
    found: dict[str, Counter[float]] = defaultdict(Counter)
    for _, one in scores:
        if one.value is not None:
            found[metric_name(one.rubric, one.criterion)][one.value] += 1
    return dict(found)


def changes(
    home: Home, study: str, sheet: str, file: str, scores: Iterable[tuple[int, HumanScore]]
) -> ScoreChanges:
    """Compare the scores with the stored ones; what was corrected on the page stays while the sheet is the
    same.
    """
    of_sheet, of_all = _sheet_score_kept(home, study, sheet)
    found = ScoreChanges()
    wanted: set[Key] = set()
    for line, one in scores:
        key = _key(one)
        wanted.add(key)
        before = of_sheet.get(key)
        if before is not None and _says(before) == _says(one):
            continue
        is_new = before is None or before["status"] != "ok"
        found.added, found.corrected = found.added + is_new, found.corrected + (not is_new)
        found.rows.append(_kept_as(one, sheet, f"{file}:{line}{_ending(sheet)}", before))
    taken_out = {"status": "withdrawn", "value": None, "comment": None, "scored_at": datetime.now(UTC)}
    for key, before in of_sheet.items():
        if key not in wanted and before["status"] == "ok":
            found.withdrawn += 1
            if of_all[key] is before:
                found.rows.append(
                    _kept_as(HumanScore(**{**before, **taken_out}), sheet, before["place"], before)
                )
    return found


def _sheet_score_kept(
    home: Home, study: str, sheet: str
) -> tuple[dict[Key, dict[str, Any]], dict[Key, dict[str, Any]]]:
    of_sheet: dict[Key, dict[str, Any]] = {}
    of_all: dict[Key, dict[str, Any]] = {}
    for row in HumanScores(home).rows(study):
        if row["showing"] != 1:
            continue
        key = _key(row)
        of_all[key] = row
        if str(row["place"]).endswith(_ending(sheet)):
            of_sheet[key] = row
    return of_sheet, of_all


def _key(score: HumanScore | Mapping[str, Any]) -> Key:
    row = score if isinstance(score, Mapping) else vars(score)
    return tuple(row[name] for name in ("annotator", "item_id", "rubric", "criterion", "cell", "question_id"))


def _says(score: HumanScore | Mapping[str, Any]) -> tuple[Any, ...]:
    row = score if isinstance(score, Mapping) else vars(score)
    return tuple(row[name] for name in ("status", "value", "comment", "rubric_version"))


def _kept_as(score: HumanScore, sheet: str, place: str, before: Mapping[str, Any] | None) -> HumanScore:
    after = before["score_id"] if before is not None else None
    known = ["sheet", sheet, score.study, *_key(score), *_says(score), after]
    return replace(score, score_id=digest(known), place=place)


MOST_ROWS = 200_000
MOST_TOLD = 100  # rejects of a spreadsheet that a message has
_SAME_ROWS = (
    *("question_id", "question", "language", "ground_truth", "answer", "contexts", *AXES, "replicate"),
    *("axes", "annotator", "scores", "comment", "scored_at"),
)
"""What a row says; the line at which it stands is not among it."""


@dataclass(frozen=True)
class ImportSummary:
    """rows: taken; doubles: repeated; scores: metric -> value -> rows; rejects, notes: `FILE:LINE: text`"""

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
    """partial: take valid rows; else one reject keeps everything out"""
    if mapping.cell is None:
        text = "`cell` is missing: name the generator, as in `cell: {generator: llama-2-13b}`"
        raise InputError(Mistake("missing", mapping_path, 1, text))
    folder = bundle.imports_folder(home, mapping.study)
    read = with_rubrics(mapping_path, mapping, folder / bundle.STUDY_FILE)
    drafts, rejects, notes = read_drafts(path, read)
    with alone(home):
        stored = bundle.read_sheets(home, mapping.study)
        name = mapping.sheet or _name_of(path, stored, drafts)
        found = deduplicate_rows(drafts, OtherSheets(stored, name))
        rejects = sorted([*rejects, *found.rejects])
        told = tuple(f"{path.name}:{line}: {text}" for line, text in rejects)
        check_rejects(path, rejects, len(found.rows), partial=partial)
        notes += [f"{path.name}:{line}: {text}" for line, text in found.notes]
        facts = (sha256_file(path), mapping.digest, len(found.rows), told, tuple(notes))
        return _kept(home, read, bundle.Sheet(name, path.name, *facts), found, stored)


def read_drafts(path: Path, read: ReadMapping) -> tuple[list[ParsedRow], list[tuple[int, str]], list[str]]:
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
    empty = "rows hold nothing in the columns that are read; they were passed over"
    notes += [f"{path.name}: {passed} {empty}"] if passed else []
    first = {draft.question: draft.line for draft in reversed(drafts)}
    lines = sorted((line, question) for question, line in first.items())
    short = short_questions((f"line {line}", question) for line, question in lines)
    notes += [f"{path.name}: {short}"] if short else []
    return drafts, rejects, notes


def check_rejects(path: Path, rejects: Sequence[tuple[int, str]], taken: int, *, partial: bool) -> None:
    if rejects and not partial:
        last = f"{path}: nothing was imported; --partial imports the valid rows"
        raise InputError(*_shortened(path, rejects), last)
    if not taken:
        raise InputError(*_shortened(path, rejects), f"{path}: no row of it can be taken")


def _shortened(path: Path, rejects: Sequence[tuple[int, str]]) -> list[str]:
    found = [f"{path}:{line}: {text}" for line, text in rejects[:MOST_TOLD]]
    more = len(rejects) - MOST_TOLD
    return [*found, f"{path}: and {more:,} more like these"] if more > 0 else found


def name_of_file(path: Path) -> str:
    return key_name(path.name.rpartition(".")[0])


def _name_of(path: Path, stored: Sequence[bundle.StoredSheet], drafts: Sequence[ParsedRow]) -> str:
    name = name_of_file(path)
    if any(one.sheet.name == name for one in stored):
        return name
    same = (one.sheet.name for one in stored if _is_same_by_content(one, drafts))
    return next(same, name)


def _is_same_by_content(stored: bundle.StoredSheet, drafts: Sequence[ParsedRow]) -> bool:
    if stored.sheet.rows != len({(one.place, one.content, one.annotator) for one in drafts}):
        return False
    settled_rows = deduplicate_rows(drafts, OtherSheets([stored], stored.sheet.name)).rows
    return _same(stored, settled_rows)


def _same(stored: bundle.StoredSheet, rows: Sequence[bundle.Row]) -> bool:
    if stored.rows.height != len(rows):
        return False
    kept = Counter(_content(row) for row in stored.rows.iter_rows(named=True))
    return kept == Counter(map(_content, rows))


def _content(row: bundle.Row) -> str:
    return repr([row[name] for name in _SAME_ROWS])


def _kept(
    home: Home, read: ReadMapping, sheet: bundle.Sheet, found: Settled, stored: Sequence[bundle.StoredSheet]
) -> ImportSummary:
    study = read.mapping.study
    before = next((one for one in stored if one.sheet.name == sheet.name), None)
    is_same = before is not None and _same(before, found.rows)
    if before is None or not is_same:
        bundle.write_sheet(home, study, sheet, found.rows)
    elif before.sheet != sheet:
        bundle.write_sheet_facts(home, study, sheet)
    scores = scores_of(study, found.rows, read.rubrics)
    new = changes(home, study, sheet.name, sheet.file, scores)
    HumanScores(home).append(new.rows)
    bundle.write_questions(home, study)
    path = bundle.imports_folder(home, study) / bundle.STUDY_FILE
    write_study(path, read)
    return _summary(read, sheet, found, new, path, changed=not is_same or bool(new.rows))


def _summary(
    read: ReadMapping, sheet: bundle.Sheet, found: Settled, new: ScoreChanges, path: Path, *, changed: bool
) -> ImportSummary:
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
        scores=count_scores(scores_of(read.mapping.study, found.rows, read.rubrics)),
        **new.counts,
        rejects=sheet.rejects,
        notes=sheet.notes,
        changed=changed,
    )


def alone(home: Home) -> AbstractContextManager[object]:
    return locked(home.root / "imports" / ".lock")

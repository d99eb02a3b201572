"""Matches the rows of anyone's sheet to the answers of a study, by their texts, and keeps their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.cell_items import current_items
from rag_assay.evals.spreadsheet_import import import_run
from rag_assay.evals.spreadsheet_import.mapping import (
    ParsedRow,
    ReadMapping,
    Scored,
    SheetMapping,
    with_rubrics,
)
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.paths import Home

Texts = tuple[str, str]  # a question and an answer, white space aside


class MatchedRow(NamedTuple):
    """The item of the study that a row is of."""

    item_id: str
    passages: tuple[str, ...]
    cells: list[str]


def match_sheet(
    path: Path, mapping_path: Path, mapping: SheetMapping, study: Study, home: Home, *, partial: bool = False
) -> import_run.ImportSummary:
    if mapping.cell is not None:
        raise InputError(
            f"{mapping_path}: `cell` is of sheets that bring their own answers, and the study {study.study} "
            "has its own: leave it out, or give the sheet another `study`"
        )
    read = with_rubrics(mapping_path, mapping, study.path)
    drafts, rejects, notes = import_run.read_drafts(path, read)
    known = _items(study, home)
    found: list[tuple[ParsedRow, MatchedRow]] = []
    for draft in drafts:
        one = _matched(draft, known)
        if isinstance(one, MatchedRow):
            found.append((draft, one))
        else:
            rejects.append((draft.line, one))
    scores, doubles = _scores(study, read, found, rejects)
    rejects.sort()
    import_run.check_rejects(path, rejects, len(scores), partial=partial)
    sheet = mapping.sheet or import_run.name_of_file(path)
    with import_run.alone(home):
        new = import_run.changes(home, study.study, sheet, path.name, scores)
        HumanScores(home).append(new.rows)
    return import_run.ImportSummary(
        study=study.study,
        sheet=sheet,
        study_file=study.path,
        rows=len({line for line, _ in scores}),
        doubles=doubles,
        questions=len({draft.question for draft, _ in found}),
        cells=len({cell for _, one in found for cell in one.cells}),
        answers=len({one.item_id for _, one in found}),
        scores=import_run.count_scores(scores),
        **new.counts,
        rejects=tuple(f"{path.name}:{line}: {text}" for line, text in rejects),
        notes=tuple(notes),
        changed=bool(new.rows),
    )


def _plain(text: str | None) -> str:
    return " ".join((text or "").split())


def _items(study: Study, home: Home) -> Mapping[Texts, list[MatchedRow]]:
    found: dict[Texts, dict[str, MatchedRow]] = {}
    work = BuildContext(home)
    try:
        for cell, items in current_items(Grid([study]), study, work):
            for item in items.items.values():
                case = item.case
                same = found.setdefault((_plain(case.question), _plain(case.answer)), {})
                passages = tuple(_plain(one.text) for one in case.passages)
                same.setdefault(item.item_id, MatchedRow(item.item_id, passages, [])).cells.append(cell.key)
    finally:
        work.close()
    if not found:
        raise InputError(f"the study {study.study} has no answers yet: assay run {study.path}")
    return {texts: list(those.values()) for texts, those in found.items()}


def _matched(draft: ParsedRow, known: Mapping[Texts, list[MatchedRow]]) -> MatchedRow | str:
    those = known.get((_plain(draft.question), _plain(draft.answer)), [])
    if draft.contexts:
        contexts = tuple(map(_plain, draft.contexts))
        those = [one for one in those if one.passages == contexts]
    if len(those) == 1:
        return those[0]
    if those:
        return f"{len(those)} cells give this answer, from other passages each; name the column of `contexts`"
    is_asked = any(question == _plain(draft.question) for question, _ in known)
    return "no cell of the study gives this answer" if is_asked else "no question of the study is this one"


def _scores(
    study: Study,
    read: ReadMapping,
    found: Sequence[tuple[ParsedRow, MatchedRow]],
    rejects: list[tuple[int, str]],
) -> tuple[list[tuple[int, HumanScore]], int]:
    by_said: dict[tuple[str, str, Scored], dict[int, tuple[ParsedRow, float]]] = {}
    for draft, one in found:
        for key, value in draft.scores.items():
            by_said.setdefault((one.item_id, draft.annotator, key), {})[draft.line] = (draft, value)
    scores, doubles = [], set[int]()
    now = datetime.now(UTC)
    for (item, annotator, key), rows in by_said.items():
        (line, (draft, value)), *others = rows.items()
        if any(one != value for _, (_, one) in others):
            lines = ", ".join(str(one) for one in rows)
            text = f"{annotator} gives the same answer several scores, in the lines {lines}: keep one"
            rejects += [(one, text) for one in rows]
            continue
        doubles |= {one for one, _ in others}
        version = read.rubrics[key[0]].version
        at = draft.scored_at or now
        score = HumanScore("", study.study, annotator, item, key[0], version, at, key[1], value)
        scores.append((line, replace(score, comment=draft.comment)))
    wrong = {line for line, _ in rejects}
    return [(line, one) for line, one in scores if line not in wrong], len(doubles - wrong)

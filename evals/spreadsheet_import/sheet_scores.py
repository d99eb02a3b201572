"""Keeps the scores of a sheet among those of people: new ones, corrected ones, those that were taken out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rag_assay.evals.rubrics.items import item_id
from rag_assay.evals.rubrics.rubric import Rubric
from rag_assay.evals.spreadsheet_import.bundle import Row, cell_key
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home

Key = tuple[str | None, ...]
"""Annotator, item, rubric, criterion, cell and question."""


@dataclass
class ScoreChanges:
    """What an import changes of the scores of its sheet.

    rows: that are added to the files of the annotators
    """

    rows: list[HumanScore] = field(default_factory=list)
    added: int = 0
    corrected: int = 0
    withdrawn: int = 0


def place_of(file: str, line: int, sheet: str) -> str:
    """Return where a score of a sheet is from, as the rows of scores say it.

    >>> place_of("scored.xlsx", 12, "llama")
    'scored.xlsx:12 (sheet llama)'
    """
    return f"{file}:{line}{_ending(sheet)}"


def _ending(sheet: str) -> str:
    return f" (sheet {sheet})"


def scores_of(
    study: str, rows: Iterable[Row], rubrics: Mapping[str, Rubric]
) -> Iterator[tuple[int, HumanScore]]:
    """Yield line and score of each score of a sheet with cells of its own, not stored yet.

    rows: of `IMPORTED`; rubrics: of the study
    """
    now = datetime.now(UTC)
    for row in rows:
        for score in row["scores"]:
            yield row["line"], _score(study, row, score, rubrics, now)


def changes(
    home: Home, study: str, sheet: str, file: str, scores: Iterable[tuple[int, HumanScore]]
) -> ScoreChanges:
    """Compare the scores of a sheet with those that were kept of it.

    What a person has corrected on the page since stays as it is, for as long as the sheet says what it said.

    Args:
        home: where the scores lie.
        study: that the sheet is of.
        sheet: its name.
        file: name of its file.
        scores: line and score; ids and places are told here.
    """
    of_sheet, of_all = _kept(home, study, sheet)
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
        found.rows.append(_kept_as(one, sheet, place_of(file, line, sheet), before))
    now = datetime.now(UTC)
    for key, before in of_sheet.items():
        if key not in wanted and before["status"] == "ok":
            found.withdrawn += 1
            if of_all[key] is before:
                found.rows.append(_kept_as(_withdrawn(before, now), sheet, before["place"], before))
    return found


def _kept(home: Home, study: str, sheet: str) -> tuple[dict[Key, dict[str, Any]], dict[Key, dict[str, Any]]]:
    """Return the last row of each score: of those that are of a sheet, and of all."""
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


def _score(
    study: str, row: Row, score: Mapping[str, Any], rubrics: Mapping[str, Rubric], now: datetime
) -> HumanScore:
    return HumanScore(
        score_id="",
        study=study,
        annotator=row["annotator"],
        item_id=item_id(row["question"], row["answer"], row["contexts"]),
        rubric=score["rubric"],
        rubric_version=rubrics[score["rubric"]].version,
        scored_at=row["scored_at"] or now,
        criterion=score["criterion"],
        value=score["value"],
        comment=row["comment"],
        cell=cell_key(study, row),
        question_id=row["question_id"],
    )


def _withdrawn(before: Mapping[str, Any], now: datetime) -> HumanScore:
    return HumanScore(**{**before, "status": "withdrawn", "value": None, "comment": None, "scored_at": now})


def _kept_as(score: HumanScore, sheet: str, place: str, before: Mapping[str, Any] | None) -> HumanScore:
    """Return a score under its id: what it says, of what, and the row of this sheet that it comes after."""
    after = before["score_id"] if before is not None else None
    known = ["sheet", sheet, score.study, *_key(score), *_says(score), after]
    return HumanScore(**{**vars(score), "score_id": digest(known), "place": place})

"""Scores in anybody's sheet, of answers that a study has given itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human import answer_matching
from rag_assay.evals.human.answer_matching import match_sheet
from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.evals.pipeline.cell_items import CellItems, current_items
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.spreadsheet_import.import_run import ImportSummary
from rag_assay.evals.spreadsheet_import.mapping import read_mapping
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.grid import Grid
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.parquet import read_parquet
from tests.fakes.scored_sheets import write_xlsx
from tests.fakes.town import PLAIN, Town, Variant

pytestmark = pytest.mark.models
SCORED: Variant = {
    **PLAIN,
    "rubrics": {"points": {"points": {}}},
    "retrievers": {"bm25": {"bm25": {"k": 5}}, "four": {"bm25": {"k": 4}}},
}
MAPPING = """\
study: tiny
columns: {question: Frage, answer: Antwort}
scores: {points: Punkte}
annotator: anna
"""


def cells(town: Town) -> dict[str, dict[str, Any]]:
    work = BuildContext(town.bench.home)
    try:
        found = current_items(Grid([town.bench.study]), town.bench.study, work)
        return {cell.key: items.items for cell, items in found}
    finally:
        work.close()


def rows(town: Town, *, passages: bool = True) -> list[dict[str, Any]]:
    """A row for each item of the study, as somebody has copied it into a sheet."""
    items = {one.item_id: one.case for held in cells(town).values() for one in held.values()}
    return [
        {
            "Frage": f" {case.question}",
            "Antwort": f"{case.answer}\n",
            "Punkte": 5,
            **({"Stellen": str([one.text for one in case.passages])} if passages else {}),
        }
        for case in items.values()
    ]


def matched(town: Town, folder: Path, found: list[dict[str, Any]], *, partial: bool = False) -> ImportSummary:
    mapping = folder / "m.yaml"
    text = MAPPING.replace("Antwort}", "Antwort, contexts: Stellen}") if "Stellen" in found[0] else MAPPING
    mapping.write_text(text)
    sheet = write_xlsx(folder / "scored.xlsx", found)
    return match_sheet(
        sheet, mapping, read_mapping(mapping), town.bench.study, town.bench.home, partial=partial
    )


def test_each_row_counts_in_all_cells_that_give_its_answer(town: Town, tmp_path: Path) -> None:
    town.build(SCORED, "home")
    found = matched(town, tmp_path, rows(town))
    held = cells(town)
    assert (
        found.rows
        == found.added
        == found.answers
        == len({i.item_id for c in held.values() for i in c.values()})
    )
    assert (found.cells, found.scores) == (2, {"people.points": {5.0: found.rows}})
    again = matched(town, tmp_path, rows(town)[::-1])
    assert (again.changed, again.added) == (False, 0)
    town.build(SCORED, "home")
    for key, items in held.items():
        scores = read_parquet(town.bench.folder("scores", key) / "scores.parquet").filter(
            metric="people.points"
        )
        assert set(scores.filter(status="ok")["question_id"]) == set(items)
    mended = rows(town)
    mended[0]["Punkte"] = 0
    change = matched(town, tmp_path, mended[:-1])
    assert (change.added, change.corrected, change.withdrawn) == (0, 1, 1)


def test_what_is_no_answer_of_the_study_is_told_and_not_kept(town: Town, tmp_path: Path) -> None:
    town.build(SCORED, "home")
    found = rows(town)
    other = [
        {**found[0], "Antwort": "Never."},
        {**found[0], "Frage": "Who?"},
        {**found[0], "Stellen": "['elsewhere']"},
        {**found[0], "Punkte": 0},
    ]
    with pytest.raises(InputError) as error:
        matched(town, tmp_path, [*found, *other])
    last = len(found) + 2
    told = [one.replace(f"{tmp_path}/", "") for one in error.value.findings]
    assert told == [
        f"scored.xlsx:2: anna gives the same answer several scores, in the lines 2, {last + 3}: keep one",
        f"scored.xlsx:{last}: no cell of the study gives this answer",
        f"scored.xlsx:{last + 1}: no question of the study is this one",
        f"scored.xlsx:{last + 2}: no cell of the study gives this answer",
        told[0].replace(":2:", f":{last + 3}:"),
        "scored.xlsx: nothing was imported; --partial imports the valid rows",
    ]
    assert list(HumanScores(town.bench.home).rows("tiny")) == []
    assert matched(town, tmp_path, [*found, *other], partial=True).rows == len(found) - 1


def test_one_answer_from_other_passages_needs_the_passages(town: Town, tmp_path: Path) -> None:
    town.build(SCORED, "home")
    texts = (["a"], ["b", "c d"])
    cases = (JudgeCase("Why?", answer="So.", passages=tuple(map(Passage, one))) for one in texts)
    first, other = map(Item, cases)
    held = [(cell, CellItems({"q": item})) for cell, item in zip(["x", "y"], (first, other), strict=True)]
    row = {"Frage": "Why?", "Antwort": "So.", "Punkte": 3}
    with patch.object(
        answer_matching, "current_items", lambda *_: [(Cell("s", *"abc", g), of) for g, of in held]
    ):
        with pytest.raises(InputError, match="2 cells give this answer, from other passages each; name"):
            matched(town, tmp_path, [row])
        assert matched(town, tmp_path, [{**row, "Stellen": "['b', 'c  d']"}]).added == 1
    [kept] = HumanScores(town.bench.home).rows("tiny")
    assert (kept["item_id"], kept["cell"], kept["value"]) == (other.item_id, None, 3.0)


def test_a_mapping_with_cells_is_told(town: Town, tmp_path: Path) -> None:
    town.build(SCORED, "home")
    found = rows(town)
    (tmp_path / "m.yaml").write_text(MAPPING + "cell: {generator: llama}\n")
    mapping = read_mapping(tmp_path / "m.yaml")
    sheet = write_xlsx(tmp_path / "scored.xlsx", found)
    with pytest.raises(InputError, match="`cell` is of sheets that bring their own answers, and"):
        match_sheet(sheet, tmp_path / "m.yaml", mapping, town.bench.study, town.bench.home)

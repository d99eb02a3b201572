"""Sheets of scored answers from their import to their leaderboard: the means are those of the sheet."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from openpyxl import load_workbook

from rag_assay.evals.spreadsheet_import.import_run import import_sheet
from rag_assay.evals.spreadsheet_import.mapping import read_mapping
from rag_assay.warehouse.paths import Home
from tests.fakes.scored_sheets import Row, rows, write_csv, write_mapping
from tests.fakes.tiny import Bench

REVIERSPORT = (
    Path(__file__).parents[3] / "shared/data/reviersport/Scored_Llama-2-13b-german-promp-template.xlsx"
)
MAPPING = """\
study: reviersport
language: de
columns: {question: question, contexts: contexts, ground_truth: ground_truth, answer: answer}
cell:
  generator: llama-2-13b-german
  retriever: {column: retrieve_methods}
  chunking: {column: chunk_strategie}
scores: {points: Score}
empty_answers: keep
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASSAY_MODELS", str(tmp_path / "no-weights"))
    return Home(tmp_path / "home")


def scored(model: str = "Llama", scores: Sequence[int] = (5, 0, 0, 3, 5)) -> list[Row]:
    """Return the rows of a sheet whose cells have means of their own."""
    return [{**row, "Score": scores[n % len(scores)]} for n, row in enumerate(rows(model))]


def sheet(home: Home, found: Sequence[Row], name: str = "llama") -> Path:
    """Import rows as a sheet; return the study file."""
    folder = home.root.parent / name
    folder.mkdir(exist_ok=True)
    mapping = write_mapping(folder, sheet=name, generator=name)
    mapping.write_text(mapping.read_text() + "empty_answers: keep\n")
    path = write_csv(folder / f"{name}.csv", found)
    return import_sheet(path, mapping, read_mapping(mapping), home).study_file


def run(path: Path, home: Home) -> Bench:
    bench = Bench(path, home)
    outcomes = bench.build()
    assert all(one.ok for found in outcomes.values() for one in found), outcomes
    return bench


def board(bench: Bench) -> pl.DataFrame:
    found = pl.read_parquet(bench.folder("leaderboard", bench.study.study) / "leaderboard.parquet")
    return found.filter(metric="people.points")


def by_hand(found: Sequence[Row]) -> dict[tuple[str, str], float]:
    """Return the mean of each combination of methods and chunk sizes, of the cells of the sheet itself."""
    named = [
        {
            "chunking": "-".join(map(str, ast.literal_eval(row["chunk_strategie"]))),
            "retriever": "+".join(ast.literal_eval(row["retrieve_methods"])).replace(" ", "_") or "none",
            "score": float(row["Score"]),
        }
        for row in found
    ]
    means = pl.DataFrame(named).group_by("chunking", "retriever").agg(pl.col("score").mean())
    return {(chunking, retriever): value for chunking, retriever, value in means.iter_rows()}


def of_board(bench: Bench, generator: str) -> dict[tuple[str, str], float]:
    cells = board(bench).filter(generator=generator).select("chunking", "retriever", "value").iter_rows()
    return {(chunking, retriever): value for chunking, retriever, value in cells}


def test_the_means_are_those_of_the_sheet_and_every_cell_is_ranked(home: Home) -> None:
    found = scored()
    bench = run(sheet(home, found), home)
    assert of_board(bench, "llama") == pytest.approx(by_hand(found), abs=1e-12)
    assert board(bench)["rank"].null_count() == 0
    assert set(board(bench)["coverage"]) == {1.0}
    assert not any(one.computed for outcomes in bench.build().values() for one in outcomes)
    assert bench.write_report().ok


def test_equal_answers_that_were_scored_unequally_stay_apart(home: Home) -> None:
    found = [{**row, "answer": "Dasselbe.", "contexts": "[]"} for row in scored()]
    assert len(set(by_hand(found).values())) > 1
    bench = run(sheet(home, found), home)
    assert of_board(bench, "llama") == pytest.approx(by_hand(found), abs=1e-12)


def test_what_people_said_of_an_empty_answer_counts(home: Home) -> None:
    found = scored()
    for row in found[:5]:
        row.update(answer="", Score=0)
    bench = run(sheet(home, found), home)
    assert of_board(bench, "llama") == pytest.approx(by_hand(found), abs=1e-12)
    assert board(bench)["rank"].null_count() == 0
    assert set(board(bench)["answered"]) == {1.0}
    assert pl.read_parquet(bench.folder("annotations", "sport") / "rejected_scores.parquet").is_empty()


def test_a_second_sheet_is_scored_beside_the_first_whose_cells_stay(home: Home) -> None:
    first, second = scored(), scored("Mix", (0, 5, 5, 0, 3, 3, 3))
    before = run(sheet(home, first), home)
    kept = {key: before.artifact("answers", key) for key in before.stages["answers"].keys()}
    bench = run(sheet(home, second, "mixtral"), home)
    assert {cell.generator for cell in bench.study.cells()} == {"llama", "mixtral"}
    assert {key: bench.artifact("answers", key) for key in kept} == kept
    assert of_board(bench, "llama") == pytest.approx(by_hand(first), abs=1e-12)
    assert of_board(bench, "mixtral") == pytest.approx(by_hand(second), abs=1e-12)


def test_a_corrected_score_changes_its_own_cell_alone(home: Home) -> None:
    found = scored()
    run(sheet(home, found), home)
    found[0]["Score"] = 3 if found[0]["Score"] != 3 else 0
    bench = Bench(sheet(home, found), home)
    outcomes = bench.build()
    assert not any(one.computed for one in outcomes["answers"])
    assert [one.key for one in outcomes["scores"] if one.computed] == ["sport.508-170.-.none.llama"]
    assert of_board(bench, "llama") == pytest.approx(by_hand(found), abs=1e-12)


@pytest.mark.skipif(not REVIERSPORT.exists(), reason="the RevierSport sheet is not beside the repository")
def test_the_sheet_of_another_project_is_ranked_as_its_rows_say(home: Home, tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(MAPPING)
    study = import_sheet(REVIERSPORT, mapping, read_mapping(mapping), home).study_file
    bench = run(study, home)
    (titles, *lines) = load_workbook(REVIERSPORT, read_only=True).active.iter_rows(values_only=True)
    found = [dict(zip(titles, line, strict=True)) for line in lines]
    assert len(found) == 528
    assert of_board(bench, "llama-2-13b-german") == pytest.approx(by_hand(found), abs=1e-12)
    assert (board(bench)["rank"].null_count(), set(board(bench)["n"])) == (0, {11})
    annotations = pl.read_parquet(bench.folder("annotations", "reviersport") / "annotations.parquet")
    assert (len(annotations), annotations["value"].null_count()) == (528, 0)
    right = annotations.filter(value=5).select(pl.col("cell").str.split(".").list.get(1).alias("chunking"))
    assert dict(right.group_by("chunking").len().iter_rows()) == {"128-42": 76, "256-85": 44, "508-170": 58}

"""What the columns of strangers' sheets are taken for, and what is left to the person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from openpyxl import Workbook

import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
from rag_assay.evals.spreadsheet_import.column_inference import guess, reasons, write_mapping
from rag_assay.evals.spreadsheet_import.import_run import import_sheet
from rag_assay.evals.spreadsheet_import.mapping import read_mapping
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from tests.fakes.scored_sheets import Row, rows, write_csv, write_xlsx

ROLES = {
    "question": "question",
    "contexts": "contexts",
    "ground_truth": "ground_truth",
    "answer": "answer",
    "retriever": "retrieve_methods",
    "score": "Score",
    "chunking": "chunk_strategie",
}


def renamed(**names: str) -> list[Row]:
    return [{names.get(key, key): value for key, value in row.items()} for row in rows()]


def roles(path: Path) -> dict[str, str]:
    return {role: one.column for role, one in guess(path).roles.items()}


def filled(path: Path, **values: str) -> Path:
    """The guessed mapping, with what it leaves open filled in."""
    text = write_mapping(guess(path), path)
    for key, value in values.items():
        line = next(one for one in text.splitlines() if one.lstrip("# ").startswith(f"{key}:"))
        text = text.replace(line, f"{line[: len(line) - len(line.lstrip(' '))]}{key}: {value}")
    file = path.with_suffix(".yaml")
    file.write_text(text)
    return file


def test_a_sheet_is_told_by_its_names_and_imports_with_the_generator_filled_in(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "Scored Llama.xlsx", rows())
    assert roles(path) == ROLES
    with pytest.raises(InputError, match=r"yaml:14: `cell.generator` is empty"):
        read_mapping(filled(path))
    mapping = filled(path, generator="llama-2")
    found = import_sheet(path, mapping, read_mapping(mapping), Home(tmp_path / "home"))
    assert (found.study, found.rows, found.cells, found.rejects) == ("scored-llama", 24, 8, ())
    assert len(mapping.read_text().splitlines()) < 30


@pytest.mark.parametrize(
    "names",
    [
        {
            "question": "user_input",
            "answer": "response",
            "contexts": "retrieved_contexts",
            "ground_truth": "reference",
        },
        {
            "question": "Frage",
            "answer": "Antwort",
            "contexts": "Kontext",
            "ground_truth": "Musterlösung",
            "Score": "Bewertung",
        },
        {
            "question": "input",
            "answer": "output",
            "contexts": "retrieval_context",
            "ground_truth": "expectedOutput",
        },
        {"question": "QUERY ", "answer": "Result", "contexts": "source documents", "Score": "Human-Rating"},
        {"question": "pregunta", "answer": "respuesta", "contexts": "contexto", "Score": "puntuación"},
        {"chunk_strategie": "Chunk-Größe", "retrieve_methods": "Search Type", "Score": "Punkte"},
    ],
    ids=["ragas", "German", "DeepEval", "LangChain", "Spanish", "axes"],
)
def test_other_tools_and_languages_call_them_otherwise(tmp_path: Path, names: dict[str, str]) -> None:
    path = write_csv(tmp_path / "a.csv", renamed(**names))
    assert roles(path) == {role: names.get(column, column).strip() for role, column in ROLES.items()}


def test_columns_whose_names_say_nothing_are_told_by_what_they_hold(tmp_path: Path) -> None:
    names = {column: f"Spalte {n}" for n, column in enumerate(ROLES.values())} | {"ground_truth": "Wahrheit"}
    found = renamed(**names)
    for row in found:
        row[names["contexts"]] = str(["Ein langer Absatz. " * 20, "Noch einer. " * 20])
    path = write_xlsx(tmp_path / "a.xlsx", found)
    expected = {role: names[column] for role, column in ROLES.items() if role != "ground_truth"}
    assert roles(path) == expected
    assert guess(path).unread == ["Wahrheit"]
    assert "# not read: the column Wahrheit" in write_mapping(guess(path), path)
    told = "\n".join(reasons(guess(path)))
    assert "question: the column 'Spalte 0': its texts end in `?`; 3 different ones" in told
    assert "generator: not told; fill it in" in told


def test_what_cannot_be_told_is_not_guessed(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [{"a": n, "b": f"x{n}", "c": 1.5 * n} for n in range(40)])
    assert roles(path) == {}
    text = write_mapping(guess(path), path)
    data = yaml.safe_load(text)
    assert data["columns"] == {"question": None, "answer": None}
    assert data["scores"] == {"points": None}
    assert "# not read: the column b" in text


@pytest.mark.parametrize(
    ("values", "rubrics", "scores"),
    [
        ([5, 0], None, {"points": "Score"}),
        ([1, 2, 4], {4.0, 2.0, 1.0}, {"points": "Score"}),
        (["ja", "Nein"], {1.0, 0.0}, {"points": {"column": "Score", "values": {"ja": 1, "Nein": 0}}}),
        ([True, False], {1.0, 0.0}, {"points": {"column": "Score", "values": {"True": 1, "False": 0}}}),
    ],
)
def test_scores_of_another_rubric_bring_one_to_be_worded(
    tmp_path: Path, values: list[Any], rubrics: set[float] | None, scores: Any
) -> None:
    found = [{**row, "Score": values[n % len(values)]} for n, row in enumerate(rows())]
    path = write_xlsx(tmp_path / "a.xlsx", found)
    mapping = filled(path, generator="llama")
    data = yaml.safe_load(mapping.read_text())
    assert data["scores"] == scores
    assert ("rubrics" in data) == (rubrics is not None)
    if rubrics:
        assert set(data["rubrics"]["points"]["points"]["anchors"]) == rubrics
    done = import_sheet(path, mapping, read_mapping(mapping), Home(tmp_path / "home"))
    assert (done.rows, sum(done.scores["people.points"].values())) == (24, 24)


@pytest.mark.parametrize(
    ("score", "line"), [(0, "empty_answers: keep  # 1 rows"), (5, "# empty_answers: keep  # some")]
)
def test_rows_without_an_answer_are_looked_at(tmp_path: Path, score: int, line: str) -> None:
    found = rows()
    found[4] = {**found[4], "answer": None, "Score": score}
    path = write_xlsx(tmp_path / "a.xlsx", found)
    assert [one for one in write_mapping(guess(path), path).splitlines() if one.startswith(line)]


def test_numbers_of_rows_are_no_ids_of_questions(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [{"id": n, **row} for n, row in enumerate(rows())])
    assert roles(path) == ROLES
    ids = {"Wer gewann?": "a", "Wie hoch?": "b", "Wann genau?": "c"}
    path = write_csv(tmp_path / "b.csv", [{"id": ids[row["question"]], **row} for row in rows()])
    assert roles(path) == ROLES | {"question_id": "id"}


def test_of_several_worksheets_the_first_is_named_and_the_others_are_told(tmp_path: Path) -> None:
    book = Workbook()
    book.active.title = "Mai # 2024"
    for row in [["Frage", "Antwort"], ["Wer war das denn?", "Ich bin es gewesen."]]:
        book.active.append(row)
    book.create_sheet("Juni").append(["a", "b"])
    book.save(tmp_path / "a.xlsx")
    text = write_mapping(guess(tmp_path / "a.xlsx"), tmp_path / "a.xlsx")
    assert yaml.safe_load(text)["worksheet"] == "Mai # 2024"
    assert "# others are Juni" in text


@pytest.mark.parametrize(
    "name",
    [
        "a: b",
        "a # b",
        "yes",
        "${HOME}",
        "{x}",
        "- a",
        "'",
        '"',
        "a\nstudy: b",
        "5",
        "\u2028x",
        "=1+1",
        "é\x85",
    ],
)
def test_a_column_of_any_name_is_written_so_that_it_is_read_back(tmp_path: Path, name: str) -> None:
    found = renamed(answer=name, Score=f"Score {name}")
    for n, row in enumerate(found):
        row[name] = f"Eine Antwort, die zählt, Nummer {n}, hier."
    path = write_csv(tmp_path / "a.csv", found)
    mapping = filled(path, generator="llama")
    read = read_mapping(mapping)
    assert read.study == "a"
    assert " ".join(read.columns.answer.split()) == " ".join(name.split())
    assert import_sheet(path, mapping, read, Home(tmp_path / "home")).rows == 24

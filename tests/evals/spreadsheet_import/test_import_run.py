"""Importing a sheet: what is kept of it, and what an import after another one changes."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from openpyxl import load_workbook

import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
from rag_assay.evals.spreadsheet_import import bundle, import_run
from rag_assay.evals.spreadsheet_import.bundle import (
    cell_digest,
    cell_rows,
    imports_folder,
    read_sheets,
    sheet_cells,
)
from rag_assay.evals.spreadsheet_import.import_run import ImportSummary, import_sheet
from rag_assay.evals.spreadsheet_import.mapping import read_mapping
from rag_assay.evals.study.grid import read_questions_of
from rag_assay.evals.study.study_check import check_study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScore, HumanScores
from rag_assay.warehouse.paths import Home
from tests.fakes.scored_sheets import Row, rows, write_csv, write_jsonl, write_mapping, write_xlsx

REVIERSPORT = (
    Path(__file__).parents[4] / "shared/data/reviersport/Scored_Llama-2-13b-german-promp-template.xlsx"
)


def imported(sheet: Path, home: Home, mapping: Path | None = None, *, partial: bool = False) -> ImportSummary:
    path = mapping or write_mapping(sheet.parent)
    return import_sheet(sheet, path, read_mapping(path), home, partial=partial)


def current(home: Home, study: str = "sport") -> dict[tuple[Any, ...], dict[str, Any]]:
    """The last row of each score."""
    names = ("annotator", "item_id", "rubric", "criterion", "cell", "question_id")
    return {tuple(row[name] for name in names): row for row in HumanScores(home).rows(study)}


def asking(*questions: str) -> list[Row]:
    return [{**rows()[0], "question": one} for one in questions]


def values(home: Home) -> Counter[tuple[str, float | None]]:
    return Counter((row["status"], row["value"]) for row in current(home).values())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.mark.skipif(not REVIERSPORT.exists(), reason="the RevierSport sheet is not beside the repository")
def test_a_sheet_of_another_project_comes_in_whole_and_again_changes_nothing(
    home: Home, tmp_path: Path
) -> None:
    text = write_mapping(tmp_path).read_text() + "empty_answers: keep\n"
    assert len(text.splitlines()) < 30
    (tmp_path / "m.yaml").write_text(text)
    found = imported(REVIERSPORT, home, tmp_path / "m.yaml")
    assert (found.rows, found.questions, found.cells, found.answers) == (528, 11, 48, 528)
    assert found.scores == {"people.points": {0.0: 327, 3.0: 23, 5.0: 178}}
    assert (found.added, found.rejects, found.notes, found.changed) == (528, (), (), True)
    [stored] = read_sheets(home, "sport")
    right = stored.rows.explode("scores").unnest("scores").filter(pl.col("value") == 5)
    assert dict(right.group_by("chunking").len().iter_rows()) == {"128-42": 76, "256-85": 44, "508-170": 58}
    assert Counter(stored.rows["contexts"].list.len()) == {6: 357, 3: 135, 0: 36}
    assert stored.rows["retriever"].n_unique() == 16
    again = imported(REVIERSPORT, home, tmp_path / "m.yaml")
    assert (again.added, again.changed, again.rows) == (0, False, 528)
    assert len(list(HumanScores(home).rows("sport"))) == 528


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.xlsx", write_xlsx),
        ("a.csv", write_csv),
        ("a.csv", lambda path, found: write_csv(path, found, ";")),
        ("a.tsv", lambda path, found: write_csv(path, found, "\t")),
        ("a.csv", lambda path, found: write_csv(path, found, "|", "utf-8-sig")),
        ("a.csv", lambda path, found: write_csv(path, found, ";", "cp1252")),
        ("a.csv", lambda path, found: write_csv(path, found, ",", "utf-16")),
        ("a.jsonl", write_jsonl),
    ],
)
def test_every_form_gives_the_same_rows(home: Home, tmp_path: Path, name: str, write: Any) -> None:
    found = imported(write(tmp_path / name, rows()), home)
    assert (found.rows, found.questions, found.cells, found.added) == (24, 3, 8, 24)
    kept = read_sheets(home, "sport")[0].rows
    first = kept.filter(question="Wer gewann?", retriever="keyword+similarity", chunking="128-42").to_dicts()
    assert [one["contexts"] for one in first] == [
        ["Über keyword: „so“, it's Wer gewann?", "Über similarity: „so“, it's Wer gewann?"]
    ]
    assert kept["embedder"].unique().to_list() == ["-"]
    assert kept["retriever"].unique(maintain_order=True).to_list() == [
        "none",
        "keyword",
        "similarity",
        "keyword+similarity",
    ]
    assert kept["ground_truth"].unique(maintain_order=True).to_list() == ["Bremen gewann.", "Mit 3:0.", None]
    assert kept["axes"][0] == ('{"chunking": "(508, 170)", "generator": "llama-2", "retriever": "[]"}')
    assert kept["line"].to_list() == (list(range(1, 25)) if name.endswith("jsonl") else list(range(2, 26)))


QUESTIONS = ["q0", "何?", "🦆", "何" * 10_000]


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv", "a.jsonl"])
def test_short_questions_are_imported_and_warned_of(home: Home, tmp_path: Path, name: str) -> None:
    write = {"a.xlsx": write_xlsx, "a.csv": write_csv, "a.jsonl": write_jsonl}[name]
    found = imported(write(tmp_path / name, asking(*QUESTIONS)), home)
    assert (found.questions, found.rejects) == (4, ())
    (told,) = found.notes
    assert "2 questions have fewer than 3 letters or digits" in told
    assert "'q0' (line " in told
    assert "何" not in told
    checked = check_study(found.study_file, home)
    assert checked.questions == 4
    (warned,) = checked.warnings
    assert "2 questions have fewer than 3 letters or digits" in warned
    assert {row["question"] for row in read_questions_of(checked.study)} == set(QUESTIONS)


@pytest.mark.parametrize("question", ["?", "…", "\u200b", "\u3164"], ids=ascii)
def test_an_empty_question_is_rejected_with_its_line_and_blocks_no_run(
    home: Home, tmp_path: Path, question: str
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [*asking("Wer gewann?"), *asking(question)])
    with pytest.raises(InputError, match=r"a\.jsonl:2: question: a question needs a letter, digit or symbol"):
        imported(path, home)
    found = imported(path, home, partial=True)
    assert (found.questions, len(found.rejects)) == (1, 1)
    assert check_study(found.study_file, home).questions == 1


def resaved(path: Path) -> None:
    book = load_workbook(path)
    book.active["Z1"] = "a note"
    book.save(path)


def moved(path: Path) -> None:
    path.rename(path.with_name("renamed.xlsx"))


def reordered(path: Path) -> None:
    write_xlsx(path, [dict(reversed(row.items())) for row in rows()])


def turned_around(path: Path) -> None:
    write_xlsx(path, rows()[::-1])


def with_titles(path: Path) -> None:
    write_xlsx(path, rows(), lambda sheet: (sheet.insert_rows(1, 2), sheet.cell(1, 1, "Auswertung, Mai")))


@pytest.mark.parametrize("named", [True, False], ids=["sheet named", "named by the file"])
@pytest.mark.parametrize("change", [resaved, moved, reordered, turned_around, with_titles])
def test_the_same_rows_in_another_file_are_no_change(
    home: Home, tmp_path: Path, change: Any, *, named: bool
) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", rows())
    mapping = write_mapping(tmp_path)
    if not named:
        mapping.write_text(mapping.read_text().replace("sheet: llama\n", ""))
    assert imported(path, home, mapping).changed
    before = list(HumanScores(home).rows("sport"))
    change(path)
    [file] = tmp_path.glob("*.xlsx")
    again = imported(file, home, mapping)
    assert (again.added, again.corrected, again.withdrawn, again.changed) == (0, 0, 0, False)
    assert list(HumanScores(home).rows("sport")) == before
    assert len(read_sheets(home, "sport")) == 1
    assert read_sheets(home, "sport")[0].sheet.file == file.name


def changed(at: int, **cells: Any) -> list[Row]:
    found = rows()
    found[at] = {**found[at], **cells}
    return found


def test_what_is_corrected_in_the_sheet_is_a_later_row_and_back_again(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    imported(write_xlsx(path, rows()), home)
    before = values(home)
    new = imported(write_xlsx(path, changed(0, Score=0)), home)
    assert (new.added, new.corrected, new.withdrawn, new.changed) == (0, 1, 0, True)
    assert values(home) == before - Counter({("ok", 5.0): 1}) + Counter({("ok", 0.0): 1})
    back = imported(write_xlsx(path, rows()), home)
    assert (back.corrected, values(home)) == (1, before)
    assert imported(path, home).changed is False
    assert len(list(HumanScores(home).rows("sport"))) == 26


def test_a_row_that_is_taken_out_takes_its_score_back(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    imported(write_xlsx(path, rows()), home)
    new = imported(write_xlsx(path, rows()[1:]), home)
    assert (new.rows, new.added, new.withdrawn) == (23, 0, 1)
    assert values(home)["withdrawn", None] == 1
    assert imported(path, home).changed is False
    assert imported(write_xlsx(path, rows()), home).added == 1
    assert values(home)["withdrawn", None] == 0


def test_another_answer_is_another_item_and_a_cell_without_score_is_none(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    imported(write_xlsx(path, rows()), home)
    new = imported(write_xlsx(path, changed(0, answer="Anders.", Score=3)), home)
    assert (new.added, new.withdrawn, new.corrected) == (1, 1, 0)
    gone = imported(write_xlsx(path, changed(0, answer="Anders.", Score=None)), home)
    assert (gone.added, gone.withdrawn, gone.rows) == (0, 1, 24)
    assert sum(len(one) for one in read_sheets(home, "sport")[0].rows["scores"]) == 23


def test_what_a_person_corrected_on_the_page_since_stays(home: Home, tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", rows())
    imported(path, home)
    row = next(iter(HumanScores(home).rows("sport")))
    HumanScores(home).append([HumanScore(**{**row, "score_id": "p", "value": 3.0, "place": "page"})])
    assert imported(path, home).changed is False
    imported(write_xlsx(path, rows()[1:]), home)
    assert (
        current(home)[
            tuple(row[n] for n in ("annotator", "item_id", "rubric", "criterion", "cell", "question_id"))
        ]["value"]
        == 3.0
    )


def test_a_second_sheet_is_a_second_generator_of_the_same_study(home: Home, tmp_path: Path) -> None:
    imported(write_xlsx(tmp_path / "a.xlsx", rows()), home)
    other = write_mapping(tmp_path, sheet="mixtral", generator="mixtral")
    found = imported(write_xlsx(tmp_path / "b.xlsx", rows("Mixtral")), home, other)
    assert (found.added, found.withdrawn, found.cells) == (24, 0, 8)
    kept = pl.concat([one.rows for one in read_sheets(home, "sport")])
    assert Counter(kept["generator"]) == {"llama-2": 24, "mixtral": 24}
    assert (imports_folder(home, "sport") / "questions.jsonl").read_text().count("\n") == 3
    assert sum(values(home).values()) == 48


@pytest.mark.parametrize("step", ["write_sheet", "HumanScores", "write_questions", "write_study"])
def test_an_import_that_was_killed_is_healed_by_the_next(home: Home, tmp_path: Path, step: str) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", rows())
    module = bundle if hasattr(bundle, step) else import_run
    with patch.object(module, step, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        imported(path, home)
    imported(path, home)
    assert imported(path, home).changed is False
    assert sum(values(home).values()) == 24
    assert len(read_sheets(home, "sport")) == 1
    assert sorted(one.name for one in imports_folder(home, "sport").iterdir()) == [
        "questions.jsonl",
        "sheets",
        "study.yaml",
    ]


@pytest.mark.parametrize("step", ["HumanScores", "write_questions"])
def test_a_correction_that_was_killed_is_healed_by_the_next(home: Home, tmp_path: Path, step: str) -> None:
    path = tmp_path / "a.xlsx"
    imported(write_xlsx(path, rows()), home)
    write_xlsx(path, changed(0, Score=0)[:-1])
    module = bundle if hasattr(bundle, step) else import_run
    with patch.object(module, step, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        imported(path, home)
    imported(path, home)
    assert values(home)["withdrawn", None] == 1
    assert sum(n for (status, _), n in values(home).items() if status == "ok") == 23


def test_the_study_file_is_written_once(home: Home, tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", rows())
    file = imported(path, home).study_file
    assert "people.points" in file.read_text()
    file.write_text(file.read_text() + "description: mine\n")
    imported(write_xlsx(path, rows()[1:]), home)
    assert file.read_text().endswith("description: mine\n")


def test_nothing_is_kept_of_a_sheet_with_a_reject_unless_it_is_to_be(home: Home, tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", changed(3, Score=4, question=None))
    with pytest.raises(InputError) as error:
        imported(path, home)
    assert error.value.findings == (
        f"{path}:5: no question",
        f"{path}:5: points: 4 is not a value of the rubric; it has 5, 3 or 0",
        f"{path}: nothing was imported; --partial imports the valid rows",
    )
    assert read_sheets(home, "sport") == []
    assert not HumanScores(home).root.exists()
    assert not imports_folder(home, "sport").exists()
    found = imported(path, home, partial=True)
    assert (found.rows, found.rejects) == (
        23,
        ("a.xlsx:5: no question", "a.xlsx:5: points: 4 is not a value of the rubric; it has 5, 3 or 0"),
    )
    assert read_sheets(home, "sport")[0].sheet.rejects == found.rejects


def test_rows_that_say_the_same_are_one_and_other_answers_are_replicates(home: Home, tmp_path: Path) -> None:
    first = rows()[0]
    more = [first, {**first, "answer": "Wieder."}, {**first, "answer": "Und wieder.", "Score": 0}]
    found = imported(write_xlsx(tmp_path / "a.xlsx", [*rows(), *more]), home)
    assert (found.rows, found.doubles, found.answers) == (26, 1, 26)
    kept = read_sheets(home, "sport")[0].rows.filter(pl.col("replicate") > 1)
    assert kept["answer"].to_list() == ["Wieder.", "Und wieder."]
    cells = {row["cell"] for row in current(home).values() if row["cell"].count(".") > 4}
    assert cells == {"sport.508-170.-.none.llama-2.2", "sport.508-170.-.none.llama-2.3"}
    # without the second one, the third takes its number
    imported(write_xlsx(tmp_path / "a.xlsx", [*rows(), *more[:1], more[2]]), home)
    kept = read_sheets(home, "sport")[0].rows.filter(pl.col("replicate") > 1)
    assert kept["replicate"].to_list() == [2]
    assert sum(n for (status, _), n in values(home).items() if status == "ok") == 25


def test_another_annotator_scores_the_same_answer(home: Home, tmp_path: Path) -> None:
    found = [{**row, "wer": "anna"} for row in rows()]
    found.append({**found[0], "wer": "ben", "Score": 0})
    mapping = write_mapping(tmp_path)
    mapping.write_text(mapping.read_text().replace("columns:\n", "columns:\n  annotator: wer\n"))
    result = imported(write_xlsx(tmp_path / "a.xlsx", found), home, mapping)
    assert (result.rows, result.answers, result.added) == (25, 24, 25)
    assert read_sheets(home, "sport")[0].rows["replicate"].max() == 1
    assert Counter(row["annotator"] for row in current(home).values()) == {"anna": 24, "ben": 1}
    folder = imports_folder(home, "sport")
    before = {one: cell_digest(folder, (*one.axes, 1)) for one in sheet_cells(folder)}
    assert [one.replicates for one in before] == [1] * 8
    # and all of them once more in a sheet of the second annotator's own
    own = [{**row, "wer": "ben", "Score": 3} for row in rows()[1:]]
    mapping.write_text(mapping.read_text().replace("sheet: llama", "sheet: ben"))
    imported(write_xlsx(tmp_path / "b.xlsx", own), home, mapping)
    first, *others = before
    assert len(cell_rows(folder, (*first.axes, 1))) == 3
    assert {one: cell_digest(folder, (*one.axes, 1)) for one in others} == {
        one: before[one] for one in others
    }


def test_two_scores_of_one_answer_by_one_person_contradict_each_other(home: Home, tmp_path: Path) -> None:
    first = rows()[0]
    path = write_xlsx(tmp_path / "a.xlsx", [*rows(), {**first, "Score": 0}])
    with pytest.raises(InputError) as error:
        imported(path, home)
    assert error.value.findings[:2] == (
        f"{path}:2: vanny gives the same answer 5 by points here and 0 in line 26: keep one",
        f"{path}:26: vanny gives the same answer 0 by points here and 5 in line 2: keep one",
    )
    assert imported(path, home, partial=True).rows == 23


def test_two_sheets_contradict_each_other_too(home: Home, tmp_path: Path) -> None:
    imported(write_xlsx(tmp_path / "a.xlsx", rows()), home)
    other = write_mapping(tmp_path, sheet="second")
    path = write_xlsx(tmp_path / "b.xlsx", changed(0, Score=0))
    with pytest.raises(InputError) as error:
        imported(path, home, other)
    assert error.value.findings[0] == (
        f"{path}:2: vanny gives the same answer 0 by points here and 5 in line 2 of the sheet llama: keep one"
        "; if it is the same sheet under another name, say `sheet: llama`"
    )


def test_one_question_with_two_truths_is_told_and_one_id_of_two_questions_is_not_taken(
    home: Home, tmp_path: Path
) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", changed(2, ground_truth="Köln."))
    assert imported(path, home).notes == (
        "a.xlsx:4: another ground truth of the question in line 2, which counts for all of its rows",
    )
    found = [{**row, "id": 7 if row["question"] == "Wer gewann?" else 8} for row in rows()]
    mapping = write_mapping(tmp_path, study="other")
    mapping.write_text(mapping.read_text().replace("columns:\n", "columns:\n  question_id: id\n"))
    path = write_xlsx(tmp_path / "b.xlsx", found)
    with pytest.raises(InputError, match=r"b.xlsx:10: the question id 8 is that of another .*, in line 6"):
        imported(path, home, mapping)


def test_two_imports_at_once_are_one_after_the_other(home: Home, tmp_path: Path) -> None:
    write_mapping(tmp_path)
    paths = [write_xlsx(tmp_path / f"{n}.xlsx", rows(str(n))) for n in range(3)]
    mappings = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        mappings.append(write_mapping(tmp_path / str(number), sheet=f"s{number}", generator=f"g{number}"))
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(imported, paths, [home] * 3, mappings))
    assert [one.added for one in found] == [24, 24, 24]
    assert len(read_sheets(home, "sport")) == 3
    assert sum(values(home).values()) == 72

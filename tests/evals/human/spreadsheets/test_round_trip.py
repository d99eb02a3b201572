"""A queue goes out as a sheet, is filled in, and comes back as scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import load_workbook

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human.queue import Queue, QueuedItem, write_queue
from rag_assay.evals.human.spreadsheets.formula_escaping import LONGEST_CELL
from rag_assay.evals.human.spreadsheets.table import showings_of, texts_of
from rag_assay.evals.human.spreadsheets.upload import bring_back, is_ours, keep, read_sheet
from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.evals.rubrics.criteria import CriteriaRubric
from rag_assay.evals.rubrics.items import Item
from rag_assay.evals.rubrics.pairwise import PairwiseRubric
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import Rubric
from rag_assay.warehouse.errors import InputError
from tests.evals.human.spreadsheets.test_formula_escaping import HOSTILE
from tests.fakes.queues import item_of, queue_of, scores_of
from tests.fakes.sheets import AT, Desk, fill, header_at, read_grid, score_all, write_grid

FORMS = ["queue.xlsx", "queue.csv"]
POINTS = ("points", None)


@pytest.fixture(params=FORMS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, queue_of(12))


def test_scores_come_back_once(desk: Desk, name: str) -> None:
    path = desk.export(name)
    assert is_ours(path)
    fill(path, score_all([5, 3, 0, "skip"], comment="=cmd|' /C calc'!A0"))
    found = desk.bring(path)
    assert not found.rejects
    assert found.counts == {"ok": 3, "skipped": 1}
    shown = showings_of(desk.queue, "anna")
    expected = [5.0, 3.0, 0.0, "skipped"]
    assert desk.values() == {
        ("anna", one.item.item_id, one.showing, *POINTS): value
        for one, value in zip(shown, expected, strict=False)
    }
    first, *_ = desk.rows()
    assert first["comment"] == "=cmd|' /C calc'!A0"
    assert (first["position"], first["queue_version"]) == (1, desk.queue.version)
    assert first["place"] == f"{name}:{3 if name.endswith('xlsx') else 4}"
    again = desk.bring(path)
    assert (len(again.scores), again.unchanged, again.rejects) == (0, 4, [])


def test_what_the_page_has_brought_stands_in_the_sheet_of_its_annotator_alone(desk: Desk, name: str) -> None:
    shown = showings_of(desk.queue, "anna")
    for one in shown[:4]:
        desk.scores.append(scores_of(desk.queue, "anna", one, lambda _: 3.0, comment="on the page"))
    grid = read_grid(desk.export(name))
    names = grid[header_at(grid)]
    rows = [dict(zip(names, row, strict=False)) for row in grid[header_at(grid) + 1 :]]
    assert [str(row["score: points"]) for row in rows[:5]] == [
        "3",
        "3",
        "3",
        "3",
        "None" if "xlsx" in name else "",
    ]
    assert rows[0]["comment"] == "on the page"
    assert "on the page" not in str(read_grid(desk.export("b" + name, "bo")))
    before = desk.rows()
    assert not desk.bring(desk.folder / name).scores
    assert desk.rows() == before


def test_a_corrected_cell_is_a_later_row_and_an_emptied_one_takes_back(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all([5, 3]))
    desk.bring(path)
    fill(path, score_all([0, None]))
    assert desk.bring(path).counts == {"ok": 1, "withdrawn": 1}
    fill(path, score_all([5, 3]))  # and back: no row is taken for the first one
    assert desk.bring(path).counts == {"ok": 2}
    assert sorted(desk.values().values()) == [3.0, 5.0]
    assert len(desk.rows()) == 6


def test_an_empty_cell_takes_nothing_back_that_the_sheet_never_held(desk: Desk, name: str) -> None:
    path = desk.export(name)
    shown = showings_of(desk.queue, "anna")
    desk.scores.append(scores_of(desk.queue, "anna", shown[0]))
    desk.scores.append(scores_of(desk.queue, "anna", shown[1], lambda _: 3.0))
    fill(path, score_all([None, 5]))
    assert desk.bring(path).counts == {"ok": 1}  # the second was edited, in the sheet and later
    assert sorted(desk.values().values()) == [5.0, 5.0]


def test_an_old_sheet_undoes_nothing_that_came_after_it(desk: Desk, name: str) -> None:
    old = desk.export(name)
    fill(old, score_all([5]))
    desk.bring(old)
    new = desk.export("new-" + name)
    fill(new, score_all([3]))
    desk.bring(new)
    assert not desk.bring(old).scores
    assert list(desk.values().values()) == [3.0]


def test_the_same_score_given_twice_is_no_change(desk: Desk, name: str) -> None:
    path = desk.export(name)
    desk.scores.append(scores_of(desk.queue, "anna", showings_of(desk.queue, "anna")[0]))
    fill(path, score_all([5]))
    assert not desk.bring(path).scores


def test_repeats_are_rows_like_the_others(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, queue_of(40, repeats=0.1))
    path = desk.export(name)
    grid = read_grid(path)
    rows = grid[header_at(grid) + 1 :]
    shown = showings_of(desk.queue, "anna")
    assert len(rows) == len(shown) > 40
    assert len({row[0] for row in rows}) == len(rows)  # nothing tells which is one
    assert "showing" not in [str(one).lower() for one in grid[header_at(grid)]]
    fill(path, lambda row, number: row.update({"score: points": 5 if shown[number].showing == 1 else 3}))
    desk.bring(path)
    assert {key[2]: value for key, value in desk.values().items()} == {1: 5.0, 2: 3.0}


def test_a_sheet_is_blind(desk: Desk, name: str) -> None:
    texts = str(read_grid(desk.export(name)))
    for told in ("minilm", "bm25", "probability", "disputed", *(one.item_id for one in desk.queue.items)):
        assert told not in texts


# What people and programs do to sheets ---------------------------------------------------------------------


def test_sorted_filtered_and_widened_sheets_are_read(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all([5, 3, 0]))
    grid = read_grid(path)
    top = header_at(grid)
    rows = sorted((row for row in grid[top + 1 :]), key=lambda row: str(row[1]), reverse=True)
    kept = [row for row in rows if row[4] not in (None, "")]  # a filter, saved
    order = list(reversed(range(len(grid[top]))))
    moved = [[row[place] for place in order] + [f"mine {n}"] for n, row in enumerate([grid[top], *kept])]
    write_grid(path, [*grid[:top], *moved])
    found = desk.bring(path)
    assert not found.rejects
    assert found.counts == {"ok": 3}
    assert "rows are not in the file" in found.notes[0]


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_csv_saved_by_another_program_is_read(tmp_path: Path, delimiter: str, encoding: str) -> None:
    items = [item_of(1, 'a; "b", c\td\n- e'), item_of(2)]
    desk = Desk(tmp_path, queue_of(items))
    path = desk.export("queue.csv")
    fill(path, score_all("5,0", comment="schön; =1"))
    write_grid(path, read_grid(path), delimiter, encoding)
    assert is_ours(path)
    found = desk.bring(path)
    assert not found.rejects
    assert found.counts == {"ok": 2}
    assert desk.rows()[0]["comment"] == "schön; =1"


def test_a_workbook_saved_as_csv_is_read(desk: Desk) -> None:
    book = desk.export("queue.xlsx")
    fill(book, score_all([5, 3]))
    path = desk.folder / "queue.csv"
    write_grid(path, [["" if one is None else one for one in row] for row in read_grid(book)], ";")
    assert is_ours(path)
    assert desk.bring(path).counts == {"ok": 2}


@pytest.mark.parametrize("value", ["5", " 5 ", "5.0", "5,0", 5, 5.0, "Wrong"])
def test_a_number_may_be_text(desk: Desk, name: str, value: Any) -> None:
    path = desk.export(name)
    fill(path, score_all([value]))
    assert desk.bring(path).counts == {"ok": 1}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (4, "`4` is not a value of it; it takes 5, 3, 0 or skip"),
        ("five", "`five` is not a value"),
        (-5, "not a value"),
        (1e300, "not a value"),
        ("nan", "not a value"),
        ("inf", "not a value"),
        (True, "not a value"),
        ("5 3", "not a value"),
        ("50%", "not a value"),
        ("=2+3", "a formula"),
        ("2026-05-03", "not a value"),
        (datetime(2026, 5, 3), "a date or time"),  # noqa: DTZ001 -- as a spreadsheet has it
        (date(2026, 5, 3), "a date or time"),
        (time(5), "a date or time"),
        ("#N/A", "not a value"),
        ("<script>alert(1)</script>", "not a value"),
        ("x" * 1000, "…` is not a value"),
    ],
)
def test_what_is_no_value_is_rejected_with_its_line(desk: Desk, name: str, value: Any, why: str) -> None:
    path = desk.export(name)
    fill(path, score_all([5, value]))
    if name.endswith(".csv") and why == "a date or time":
        why = "not a value"  # a CSV file has texts alone
    found = desk.bring(path)
    assert len(found.rejects) == 1
    line = 4 if name.endswith("xlsx") else 8
    assert found.rejects[0].startswith(f"{name}:{line}: `score: points`: ")
    assert why in found.rejects[0]
    assert not desk.rows()
    with pytest.raises(ValueError, match="whole"):
        keep(found, desk.home)


@pytest.mark.parametrize("column", ["question", "answer", "ground truth", "passage 2"])
@pytest.mark.parametrize("text", ["", "At one [1].", None])
def test_an_edited_text_is_noticed(desk: Desk, name: str, column: str, text: str | None) -> None:
    path = desk.export(name)
    fill(path, score_all([5, 5, 5], **{column: text}))
    found = desk.bring(path)
    assert len(found.rejects) == 1
    assert f"`{column}` is not the text of the item" in found.rejects[0]
    assert not desk.rows()


def test_swapped_ids_are_noticed(desk: Desk, name: str) -> None:
    path = desk.export(name)
    grid = read_grid(path)
    top = header_at(grid)
    grid[top + 1][0], grid[top + 2][0] = grid[top + 2][0], grid[top + 1][0]
    write_grid(path, grid)
    assert len(desk.bring(path).rejects) >= 2


@pytest.mark.parametrize("item", ["r000000000000", "=1+1", "x" * 5000, 7])
def test_an_unknown_item_is_rejected(desk: Desk, name: str, item: Any) -> None:
    path = desk.export(name)
    fill(path, score_all([5], item=item))
    (reject,) = desk.bring(path).rejects
    assert "item" in reject
    assert len(reject) < 200


def test_a_row_without_its_item_is_rejected_if_it_has_a_score(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all([5], item=None))
    (reject,) = desk.bring(path).rejects
    assert "without an `item`" in reject


def test_a_doubled_row_counts_once_and_two_scores_of_one_item_do_not(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all([5, 3]))
    grid = read_grid(path)
    top = header_at(grid)
    write_grid(path, [*grid, grid[top + 1]])
    found = desk.bring(path)
    assert (found.counts, found.rejects) == ({"ok": 2}, [])
    assert "the same row as" in found.notes[0]
    other = list(grid[top + 1])
    other[grid[top].index("score: points")] = 0
    write_grid(path, [*grid, other])
    (reject,) = desk.bring(path).rejects
    assert "with other scores" in reject


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda grid, top: grid[top].__setitem__(grid[top].index("score: points"), "points"), "is missing"),
        (lambda grid, top: grid[top].__setitem__(0, "id"), "no row names the columns"),
        (lambda grid, top: grid[top].__setitem__(1, "answer"), "2 columns are called `answer`"),
        (lambda grid, top: grid.__delitem__(0), "the line that names its queue is missing"),
        (lambda grid, _: grid[0].__setitem__(0, grid[0][0][:60]), "was edited"),
        (lambda grid, _: grid[0].__setitem__(0, "# rag-assay queue " + "[" * 9_000), "was edited"),
        (lambda grid, _: grid[0].__setitem__(0, grid[0][0].replace("tiny", "../../etc")), "was edited"),
        (lambda grid, _: grid[0].__setitem__(0, grid[0][0].replace("anna", "bo")), "do not belong together"),
        (lambda grid, _: grid.__delitem__(slice(None)), "is missing"),
    ],
)
def test_a_sheet_that_lost_its_form_is_refused(desk: Desk, name: str, change: Any, said: str) -> None:
    path = desk.export(name)
    grid = read_grid(path)
    change(grid, header_at(grid))
    write_grid(path, grid or [[""]])
    with pytest.raises(InputError, match=said):
        bring_back(path, desk.home, AT)
    assert not desk.rows()


def test_merged_cells_are_rejected(desk: Desk) -> None:
    path = desk.export("queue.xlsx")
    fill(path, score_all([5]))
    book = load_workbook(path)
    letter = "E"
    assert book["scores"][f"{letter}2"].value == "score: points"
    book["scores"].merge_cells(f"{letter}3:{letter}5")
    book.save(path)
    found = desk.bring(path)
    assert len(found.rejects) == 2
    assert "merged" in found.rejects[0]


def test_a_formula_without_a_computed_value_is_rejected(desk: Desk) -> None:
    path = desk.export("queue.xlsx")
    fill(path, score_all(["=FORMULA()"]))
    (reject,) = desk.bring(path).rejects
    assert "formula" in reject


# What the study has become meanwhile -----------------------------------------------------------------------


def renewed(desk: Desk, items: Sequence[Item], rubrics: dict[str, Rubric] | None = None) -> None:
    desk.queue = queue_of(items, rubrics, seed=9)
    write_queue(desk.home, desk.queue)


def test_rows_of_an_older_queue_are_taken(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all(5))
    renewed(desk, [item_of(3), item_of(30)])
    found = desk.bring(path)
    assert not found.rejects
    assert any("no longer in the queue" in note for note in found.notes)
    assert len(desk.values()) == len(found.scores) >= 12


def test_a_ground_truth_that_was_changed_since_is_another_matter(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all(5))
    item = item_of(3)
    renewed(desk, [Item(replace(item.case, ground_truth="At one."), item.evidence)])
    found = desk.bring(path)
    assert found.rejects
    assert all("ground truth has changed" in one for one in found.rejects)


def test_an_anchor_that_was_worded_anew_rejects_edits_alone(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all([5]))
    renewed(desk, [item_of(n) for n in range(12)], {"points": Points(anchors={5: "Good", 0: "Bad"})})
    (reject,) = desk.bring(path).rejects
    assert "wording of the rubric has changed" in reject


def test_a_rubric_beside_changes_nothing(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all([5]))
    rubrics: dict[str, Rubric] = {"points": Points(), "more": Points(ask="And this?")}
    renewed(desk, [item_of(n) for n in range(12)], rubrics)
    assert desk.bring(path).counts == {"ok": 1}


def test_a_queue_of_another_home_is_refused(desk: Desk, name: str, tmp_path: Path) -> None:
    path = desk.export(name)
    other = Desk(tmp_path / "other", queue_of(3))
    with pytest.raises(InputError, match="import it where it was exported"):
        other.bring(path)


# Rubrics of other kinds ------------------------------------------------------------------------------------


def test_criteria_have_a_column_each(tmp_path: Path, name: str) -> None:
    rubric = CriteriaRubric.model_validate({"scale": "binary"})
    desk = Desk(tmp_path, queue_of(3, {"quality": rubric}))
    path = desk.export(name)
    columns = [f"score: quality.{one.name}" for one in rubric.criteria]
    assert len(columns) > 1

    def change(row: dict[str, Any], number: int) -> None:
        row.update({column: (number + place) % 2 for place, column in enumerate(columns)})
        row["comment"] = f"no. {number}"

    fill(path, change)
    found = desk.bring(path)
    assert not found.rejects
    assert len(found.scores) == 3 * len(columns)
    assert not desk.bring(path).scores
    assert not desk.bring(desk.export("again-" + name)).scores

    fill(path, lambda row, _: row.update({columns[1]: ""}))
    assert desk.bring(path).counts == {"withdrawn": 3}
    fill(path, lambda row, number: row.update({"comment": "other"} if number == 0 else {}))
    (row,) = desk.bring(path).scores
    assert (row.comment, row.criterion) == ("other", rubric.criteria[0].name)


def test_a_swapped_pair_is_scored_as_it_is_shown(tmp_path: Path, name: str) -> None:
    duel = PairwiseRubric.model_validate({"against": "a.b.c.d"})
    desk = Desk(tmp_path, queue_of([item_of(n, rival=f"Never, {n}.") for n in range(12)], {"duel": duel}))
    path = desk.export(name)
    shown = showings_of(desk.queue, "anna")
    assert {one.swapped for one in shown} == {True, False}

    def prefers_noon(row: dict[str, Any], _: int) -> None:
        row["score: duel"] = 1 if row["answer"].startswith("At noon") else 0
        assert row["second answer"] != row["answer"]

    fill(path, prefers_noon)
    found = desk.bring(path)
    assert not found.rejects
    assert set(desk.values().values()) == {1.0}
    assert not desk.bring(path).scores
    grid = read_grid(desk.export("again-" + name))
    at = grid[header_at(grid)].index("score: duel")
    assert {str(row[at]) for row in grid[header_at(grid) + 1 :]} == {"0", "1"}  # filled in as it is shown


def test_what_is_not_asked_of_an_item_stays_empty(tmp_path: Path, name: str) -> None:
    rubrics: dict[str, Rubric] = {
        "points": Points(),
        "duel": PairwiseRubric.model_validate({"against": "a.b.c.d"}),
    }
    queue = queue_of([item_of(1), item_of(2, rival="Never.")], rubrics)
    first, second = queue.items
    mixed = replace(queue, items=(replace(first, rubrics=("points",)), replace(second, rubrics=("duel",))))
    desk = Desk(tmp_path, mixed)
    path = desk.export(name)
    fill(path, lambda row, _: row.update({"score: duel": "", "score: points": 5}))
    (reject,) = desk.bring(path).rejects
    assert "the item has no such question" in reject


# Texts of all kinds ----------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.tuples(*[HOSTILE.filter(str.strip)] * 4), comment=HOSTILE)
def test_hostile_texts_come_back_as_they_are(
    tmp_path_factory: Any, texts: tuple[str, ...], comment: str
) -> None:
    question, answer, truth, passage = (one.encode("utf-8", "replace").decode() for one in texts)
    case = JudgeCase(
        question, answer=answer, ground_truth=truth, passages=(Passage(passage, title=question),)
    )
    queue = Queue("tiny", {"points": Points()}, (QueuedItem(Item(case), ("points",)),), 1, AT)
    desk = Desk(tmp_path_factory.mktemp("hostile"), queue)
    (shown,) = showings_of(queue, "anna")
    desk.scores.append(scores_of(queue, "anna", shown, comment=comment))
    for name in FORMS:
        path = desk.export(name)
        (row,) = read_sheet(path).rows
        assert dict(row.texts) == texts_of(queue, shown)
        assert row.comment == desk.rows()[0]["comment"]
        assert not desk.bring(path).scores


def test_long_texts_lose_nothing(tmp_path: Path, name: str) -> None:
    answer = "=" + "é" * (2 * LONGEST_CELL) + "the end"
    desk = Desk(tmp_path, queue_of([item_of(1, answer), item_of(2)]))
    path = desk.export(name)
    grid = read_grid(path)
    assert "answer (part 3)" in grid[header_at(grid)]
    texts = {row.texts["answer"] for row in read_sheet(path).rows}
    assert answer in texts
    fill(path, score_all(5))
    assert desk.bring(path).counts == {"ok": 2}


def test_markup_and_paths_in_a_comment_are_text(desk: Desk, name: str) -> None:
    for comment in (
        "<img src=x onerror=alert(1)>",
        "../../etc/passwd",
        "file:///etc/passwd",
        "{{7*7}}",
        "${HOME}",
    ):
        path = desk.export(name)
        fill(path, score_all([5], comment=comment))
        desk.bring(path)
        assert desk.rows()[-1]["comment"] == comment


def test_a_comment_alone_is_told_of(desk: Desk, name: str) -> None:
    path = desk.export(name)
    fill(path, score_all([None], comment="I think of it later"))
    found = desk.bring(path)
    assert not found.scores
    assert "a comment without a score is not kept" in found.notes[0]


def test_people_have_sheets_of_their_own(desk: Desk, name: str) -> None:
    mine, theirs = desk.export(name), desk.export("b" + name, "=Bo; \"x\", 'y'")
    fill(mine, score_all([5]))
    fill(theirs, score_all([3]))
    desk.bring(mine)
    desk.bring(theirs)
    assert {key[0]: value for key, value in desk.values().items()} == {"anna": 5.0, "=Bo; \"x\", 'y'": 3.0}


def test_shared_work_is_parted(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, queue_of(30, twice=0.2))
    total = 0
    for who in ("anna", "bo"):
        path = desk.export(f"{who}-{name}", who, among=("anna", "bo"))
        fill(path, score_all(5))
        total += len({one.item_id for one in desk.bring(path).scores})
    assert total == 30 + 6


def test_a_workbook_is_easy_to_fill_in_and_hard_to_spoil(desk: Desk) -> None:
    book = load_workbook(desk.export("queue.xlsx"))
    sheet, legend = book["scores"], book["how to score"]
    names = [cell.value for cell in sheet[2]]
    assert sheet.row_dimensions[1].hidden
    assert sheet.freeze_panes == "C3"
    assert sheet.protection.sheet
    assert legend.protection.sheet
    for place, column in enumerate(names, 1):
        assert sheet.cell(3, place).protection.locked is (column not in {"score: points", "comment"})
        assert sheet.cell(3, place).data_type in {"s", "n"}
    (rule,) = sheet.data_validations.dataValidation
    assert rule.type == "list"
    assert rule.formula1 == "'how to score'!$B$2:$B$5"
    assert [legend.cell(row, 2).value for row in range(2, 6)] == [5, 3, 0, "skip"]
    assert legend["C2"].value.startswith("Right, and in the language")
    assert sheet.cell(3, names.index("answer") + 1).alignment.wrap_text
    assert sheet.cell(3, names.index("comment") + 1).number_format == "@"

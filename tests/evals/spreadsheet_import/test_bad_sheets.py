"""What is wrong with strangers' sheets is said in a sentence, with its line, and nothing is kept of them."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from datetime import date, time
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook, load_workbook

import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
from rag_assay.evals.spreadsheet_import import import_run, tables
from rag_assay.evals.spreadsheet_import.bundle import read_sheets
from rag_assay.evals.spreadsheet_import.import_run import ImportSummary, import_sheet
from rag_assay.evals.spreadsheet_import.mapping import read_mapping
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from tests.fakes.scored_sheets import Row, rows, write_csv, write_jsonl, write_mapping, write_xlsx

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def imported(sheet: Path, *, partial: bool = False) -> ImportSummary:
    path = sheet.parent / "mapping.yaml"
    mapping = path if path.exists() else write_mapping(sheet.parent)
    return import_sheet(sheet, mapping, read_mapping(mapping), Home(sheet.parent / "home"), partial=partial)


def refused(sheet: Path) -> tuple[str, ...]:
    """All that is said of a sheet, its path left out; nothing is kept of it."""
    with pytest.raises(InputError) as error:
        imported(sheet)
    assert read_sheets(Home(sheet.parent / "home"), "sport") == []
    assert not (sheet.parent / "home" / "annotations").exists()
    return tuple(one.replace(f"{sheet.parent}/", "") for one in error.value.findings)


def changed(at: int, **cells: Any) -> list[Row]:
    found = rows()
    found[at] = {**found[at], **cells}
    return found


@pytest.mark.parametrize(
    ("score", "told"),
    [
        (4, "points: 4 is not a value of the rubric; it has 5, 3 or 0"),
        (-5, "points: -5 is not a value of the rubric; it has 5, 3 or 0"),
        ("5 Punkte", "points: '5 Punkte' is not a number; say what it is worth by `values`"),
        ("fünf", "points: 'fünf' is not a number; say what it is worth by `values`"),
        ("5;3", "points: '5;3' is not a number; say what it is worth by `values`"),
        ("NaN", "points: 'NaN' is not a number; say what it is worth by `values`"),
        ("inf", "points: 'inf' is not a number; say what it is worth by `values`"),
        ("1e999", "points: '1e999' is not a number; say what it is worth by `values`"),
        (10**400, "points: "),
        (True, "points: true is not a number; say what it is worth by `values`"),
        (date(2024, 3, 5), "points: a date (2024-03-05 00:00:00), no score; Excel makes dates of 3.5 or 1/2"),
        (time(5, 0), "points: a date (05:00:00), no score; Excel makes dates of 3.5 or 1/2"),
        ("#DIV/0!", "points: the error #DIV/0! of a formula"),
        ("=2+3", "points: a formula whose value is not stored; open the file in Excel or LibreOffice"),
        ("<b>5</b>", "points: '<b>5</b>' is not a number; say what it is worth by `values`"),
        ("../../etc/passwd", "points: '../../etc/passwd' is not a number"),
    ],
)
def test_a_score_that_is_none_is_told_with_its_line(tmp_path: Path, score: Any, told: str) -> None:
    found = changed(3, Score=str(score) if isinstance(score, int) and score > 10**300 else score)
    first, last = refused(write_xlsx(tmp_path / "a.xlsx", found))
    assert first.startswith(f"a.xlsx:5: {told}")
    assert last == "a.xlsx: nothing was imported; --partial imports the valid rows"


@pytest.mark.parametrize(
    ("score", "value"),
    [
        ("5", 5.0),
        (" 5,0 ", 5.0),
        ("3.0", 3.0),
        (5.0, 5.0),
        ("+5", 5.0),
        ("٥", 5.0),
        (None, None),
        (" ", None),
    ],
)
def test_a_score_that_is_a_number_in_other_words_is_taken(
    tmp_path: Path, score: Any, value: float | None
) -> None:
    imported(write_xlsx(tmp_path / "a.xlsx", changed(3, Score=score)))
    scores = read_sheets(Home(tmp_path / "home"), "sport")[0].rows["scores"][3].to_list()
    assert [one["value"] for one in scores] == ([] if value is None else [value])


@pytest.mark.parametrize(
    ("score", "told"),
    [("NaN", "'nan' is not a number"), ("Infinity", "'inf' is not a number"), ("[5]", "[5] is not")],
)
def test_numbers_that_json_has_beyond_others_are_no_scores(tmp_path: Path, score: str, told: str) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", changed(3, Score="@"))
    path.write_text(path.read_text().replace('"@"', score))
    assert refused(path)[0].startswith(f"a.jsonl:4: points: {told}")


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"question": None}, "no question"),
        ({"question": "  "}, "no question"),
        (
            {"answer": None},
            "no answer, but a score; where an empty cell means that the model wrote nothing, say",
        ),
        ({"question": True}, "question: must be text, not true"),
        ({"contexts": "['a', 'b"}, "contexts: not a list that can be read: "),
        ({"contexts": "[1, 2]"}, "contexts: item 1 must be a text, not 1"),
        (
            {"contexts": "['" + "x" * 32_765},
            "contexts: not a list that can be read: cut at 32,767 characters",
        ),
        ({"chunk_strategie": None}, "chunking: the cell is empty; say what that is called by `empty`"),
        ({"answer": "#REF!"}, "answer: the error #REF! of a formula"),
        ({"answer": "=A1"}, "answer: a formula whose value is not stored"),
    ],
)
def test_a_row_that_cannot_be_used_is_told_with_its_line(tmp_path: Path, cells: Row, told: str) -> None:
    assert refused(write_xlsx(tmp_path / "a.xlsx", changed(3, **cells)))[0].startswith(f"a.xlsx:5: {told}")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000,
        "(" * 5_000 + ")" * 5_000,
        "['a'" + ", 'a'" * 11_000 + "]",
        "[" + "-" * 9_000 + "]",
        "[__import__('os')]",
        "[{'a': " * 50 + "]",
    ],
    ids=["open", "nested", "many", "signs", "code", "mixed"],
)
def test_a_hostile_list_is_a_reject_and_costs_nothing(tmp_path: Path, text: str) -> None:
    path = write_csv(tmp_path / "a.csv", changed(3, contexts=text))
    try:
        told = refused(path)[0]
    except pytest.fail.Exception:
        kept = read_sheets(Home(tmp_path / "home"), "sport")[0].rows["contexts"][3].to_list()
        assert kept == [text]  # a text like any other
    else:
        assert told.startswith("a.csv:5: contexts: ")


def test_markup_and_formulas_in_texts_are_texts(tmp_path: Path) -> None:
    texts = [
        "<script>alert(1)</script>",
        "=cmd|' /C calc'!A0",
        "@SUM(1)",
        "{{ 7*7 }}",
        "../../x",
        "a\tb\x0bc",
        "\ud800",
    ]
    found = [{**row, "answer": texts[n % len(texts)] + str(n)} for n, row in enumerate(rows())]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    assert imported(path).rows == 24
    kept = read_sheets(Home(tmp_path / "home"), "sport")[0].rows["answer"].to_list()
    assert kept == [one["answer"].replace("\ud800", "?") for one in found]


def without(name: str) -> Callable[[Path], Path]:
    return lambda path: write_xlsx(path, [{k: v for k, v in row.items() if k != name} for row in rows()])


def renamed(path: Path) -> Path:
    return write_xlsx(path, [{k.replace("Score", "Scores"): v for k, v in row.items()} for row in rows()])


def renamed_at_length(path: Path) -> Path:
    return write_xlsx(path, [{k.replace("Score", "Z" * 30_000): v for k, v in row.items()} for row in rows()])


def doubled(path: Path) -> Path:
    return write_xlsx(path, rows(), lambda sheet: sheet.cell(1, 20, " score"))


def two_sheets(path: Path) -> Path:
    return write_xlsx(path, rows(), lambda sheet: sheet.parent.create_sheet("Kopie").append(["x"]))


def empty(path: Path) -> Path:
    Workbook().save(path)
    return path


def header_alone(path: Path) -> Path:
    return write_xlsx(path, rows(), lambda sheet: sheet.delete_rows(2, 100))


def truncated(path: Path) -> Path:
    whole = write_xlsx(path, rows()).read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    return path


def bomb(path: Path) -> Path:
    """A worksheet of 400 MB of blanks in a file of half a megabyte."""
    with (
        zipfile.ZipFile(write_xlsx(path, rows()), "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/x.xml", "w") as part,
    ):
        for _ in range(40):
            part.write(b" " * 1_000_000)
    return path


def entities(path: Path) -> Path:
    laughs = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
    with zipfile.ZipFile(write_xlsx(path, rows()), "a") as archive:
        archive.writestr("xl/laughs.xml", laughs)
    return path


def of_bytes(data: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(data)
        return path

    return write


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def circle(path: Path) -> Path:
    path.symlink_to(path)
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("name", "write", "told"),
    [
        (
            "a.xlsx",
            without("Score"),
            "a.xlsx:1: no column 'Score'; there are question, contexts, ground_truth, answer, ",
        ),
        ("a.xlsx", renamed, "a.xlsx:1: no column 'Score'; did you mean 'Scores'? there are question, "),
        ("a.xlsx", renamed_at_length, "a.xlsx:1: no column 'Score'; there are question, contexts, "),
        ("a.xlsx", doubled, "a.xlsx:1: 2 columns are called 'Score'; rename all but one"),
        (
            "a.xlsx",
            two_sheets,
            "a.xlsx: 2 worksheets hold something: 'Sheet', 'Kopie'; say which one is meant, as in",
        ),
        ("a.xlsx", empty, "a.xlsx: it holds nothing"),
        ("a.xlsx", header_alone, "a.xlsx: there is no row below the names of its columns"),
        ("a.xlsx", truncated, "a.xlsx: truncated or damaged: its list of parts cannot be read"),
        ("a.xlsx", bomb, "a.xlsx: unpacks to more than 150 times its size, as no sheet does"),
        ("a.xlsx", entities, "a.xlsx: it declares XML entities, in xl/laughs.xml"),
        (
            "a.xlsx",
            of_bytes(OLE + "EncryptedPackage".encode("utf-16-le")),
            "a.xlsx: protected by a password; open it, save",
        ),
        (
            "a.xlsx",
            of_bytes(OLE + b"\0" * 99),
            "a.xlsx: of an Excel before 2007 (.xls), or no sheet at all; save it as",
        ),
        (
            "a.xlsx",
            of_bytes(b"question,answer\n"),
            "a.xlsx: no workbook; if it is a table of text, let its name end in",
        ),
        ("a.xlsx", of_bytes(b""), "a.xlsx: no workbook; if it is a table of text, let its name end in .csv"),
        (
            "a.xlsx",
            of_bytes(b"PK\x05\x06" + b"\0" * 18),
            "a.xlsx: not an XLSX file: it has no [Content_Types].xml",
        ),
        (
            "a.csv",
            lambda path: write_xlsx(path, rows()),
            "a.csv: a workbook, not text; let its name end in .xlsx",
        ),
        (
            "a.csv",
            of_bytes(bytes(range(256)) * 40),
            "a.csv: not text, but other bytes; save it as CSV in UTF-8",
        ),
        ("a.csv", of_bytes(b""), "a.csv: it holds nothing"),
        ("a.jsonl", of_bytes(b""), "a.jsonl: it holds nothing"),
        ("a.jsonl", of_bytes(b"[1]\n"), "a.jsonl:1: expected a JSON object, not list"),
        (
            "a.ods",
            of_bytes(b"x"),
            "a.ods: a sheet is a file of .xlsx, .xlsm, .csv, .tsv, .txt, .jsonl, .ndjson; save",
        ),
        ("a.csv", pipe, "a.csv: is not a regular file; reading a pipe or a device may never end"),
        ("a.csv", circle, "a.csv: cannot be read (Too many levels of symbolic links)"),
        ("a.xlsx", folder, "a.xlsx: is a folder; a file is needed here"),
        ("a.xlsx", lambda path: path, "a.xlsx: there is no such file"),
    ],
)
def test_a_file_that_is_no_sheet_is_told_in_a_sentence(
    tmp_path: Path, name: str, write: Callable[[Path], Path], told: str
) -> None:
    write_mapping(tmp_path)
    assert refused(write(tmp_path / name))[0].startswith(told)


def test_a_symbolic_link_to_a_sheet_is_that_sheet(tmp_path: Path) -> None:
    (tmp_path / "b.xlsx").symlink_to(write_xlsx(tmp_path / "a.xlsx", rows()))
    assert imported(tmp_path / "b.xlsx").rows == 24


def test_a_worksheet_is_read_by_its_name(tmp_path: Path) -> None:
    path = two_sheets(tmp_path / "a.xlsx")
    mapping = write_mapping(tmp_path)
    mapping.write_text(mapping.read_text() + "worksheet: Sheet\n")
    assert imported(path).rows == 24
    mapping.write_text(mapping.read_text().replace("worksheet: Sheet", "worksheet: Sheets"))
    with pytest.raises(InputError, match="no worksheet 'Sheets'; did you mean `Sheet`"):
        imported(path)


def test_what_a_formula_came_to_is_read_where_it_is_stored(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", changed(3, Score="=2+3"))
    data = {one: zipfile.ZipFile(path).read(one) for one in zipfile.ZipFile(path).namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    data[sheet] = (
        data[sheet]
        .replace(b"<f>2+3</f><v />", b"<f>2+3</f><v>5</v>")
        .replace(b"<f>2+3</f><v></v>", b"<f>2+3</f><v>5</v>")
    )
    with zipfile.ZipFile(path, "w") as archive:
        for one, body in data.items():
            archive.writestr(one, body)
    found = imported(path)
    assert found.scores["people.points"][5.0] == 9
    assert found.notes == ("a.xlsx: 1 cells of it are formulas; the values computed last are read",)


def test_merged_cells_are_told_where_they_hide_a_value(tmp_path: Path) -> None:
    def merge(sheet: Any) -> None:
        sheet.merge_cells("A2:A4")  # a question over three rows
        sheet.merge_cells("J1:L1")  # of no column that is read

    path = write_xlsx(tmp_path / "a.xlsx", rows(), merge)
    assert refused(path)[:2] == (
        "a.xlsx:3: question: merged with others (A2:A4); unmerge, and fill in each",
        "a.xlsx:4: question: merged with others (A2:A4); unmerge, and fill in each",
    )
    assert imported(path, partial=True).rows == 22


def test_hidden_rows_are_read_and_told(tmp_path: Path) -> None:
    def hide(sheet: Any) -> None:
        sheet.row_dimensions[5].hidden = True

    found = imported(write_xlsx(tmp_path / "a.xlsx", rows(), hide))
    assert (found.rows, found.notes) == (
        24,
        ("a.xlsx: 1 rows of it are hidden; they were read like the others",),
    )


def test_empty_rows_are_passed_over_and_lines_stay_those_of_the_file(tmp_path: Path) -> None:
    def part(sheet: Any) -> None:
        sheet.insert_rows(4, 2)
        sheet.cell(5, 15, "a remark")

    found = imported(write_xlsx(tmp_path / "a.xlsx", rows(), part))
    assert found.notes == ("a.xlsx: 1 rows hold nothing in the columns that are read; they were passed over",)
    assert read_sheets(Home(tmp_path / "home"), "sport")[0].rows["line"].to_list()[:4] == [2, 3, 6, 7]


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_table_of_text_below_a_title_is_found(tmp_path: Path, encoding: str) -> None:
    path = write_csv(tmp_path / "a.csv", rows(), ";", encoding)
    path.write_bytes("Auswertung, Mai, Köln\r\n\r\n".encode(encoding) + path.read_bytes())
    assert imported(path).rows == 24
    path.write_bytes(b"sep=;\r\n" + write_csv(path, rows(), ";", encoding).read_bytes())
    assert imported(path).changed is False


def test_a_quotation_mark_that_is_never_closed_is_told(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", rows())
    path.write_text(path.read_text() + '"Wer?,x\n')
    assert refused(path)[0].startswith("a.csv:26: not a row of a table (unexpected end of data); is a")


def test_a_row_with_more_cells_than_columns_is_told(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", rows())
    path.write_text(path.read_text() + 'Wer?,[],x,y,[],5,"(1, 2)",more\n')
    assert refused(path)[0] == "a.csv:26: 8 cells for 7 columns; is there a delimiter within a text?"


@pytest.mark.parametrize(
    ("one", "two", "name"),
    [
        ("BM25", "bm25", "bm25"),
        ("a b", "a-b", "a-b"),
        ("['a', 'b']", "a+b", "a+b"),
        ("(1, 2)", "1/2", "1-2"),
        ("ä", "ae", "ae"),
    ],
)
def test_two_names_that_fall_together_are_told(tmp_path: Path, one: str, two: str, name: str) -> None:
    found = [{**row, "retrieve_methods": one if n % 2 else two} for n, row in enumerate(rows())]
    path = write_csv(tmp_path / "a.csv", found)
    [told] = refused(path)
    assert told.endswith(f"both become `{name}`; name them by `values` under `cell.retriever`")
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(
        mapping.read_text().replace(
            "{column: retrieve_methods}", f'{{column: retrieve_methods, values: {{"{one}": one}}}}'
        )
    )
    imported(path)
    kept = read_sheets(Home(tmp_path / "home"), "sport")[0].rows["retriever"]
    assert set(kept) == {"one", name}


def test_more_rejects_than_a_person_reads_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_run, "MOST_TOLD", 5)
    told = refused(write_xlsx(tmp_path / "a.xlsx", [{**row, "Score": 4} for row in rows()]))
    assert len(told) == 7
    assert told[5:] == (
        "a.xlsx: and 19 more like these",
        "a.xlsx: nothing was imported; --partial imports the valid rows",
    )
    with pytest.raises(InputError, match="no row of it can be taken"):
        imported(tmp_path / "a.xlsx", partial=True)


def test_a_sheet_beyond_all_measure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", rows())
    monkeypatch.setattr(import_run, "MOST_ROWS", 10)
    assert refused(path) == ("a.xlsx: more than 10 rows; split it into several files",)
    monkeypatch.setattr(tables, "MAX_CELLS", 40)
    assert refused(path)[0].endswith("more rows or columns than a sheet has; split it")


def test_a_row_that_says_to_be_the_last_of_all_costs_nothing(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", rows())
    book = load_workbook(path)
    book.active.cell(1_048_576, 16_384, "x")
    book.save(path)
    found = imported(path)
    assert (found.rows, len(found.notes)) == (24, 1)

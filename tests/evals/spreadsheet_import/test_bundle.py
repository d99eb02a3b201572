"""Where the rows of imported sheets lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rag_assay.evals.spreadsheet_import import bundle
from rag_assay.evals.spreadsheet_import.bundle import (
    Sheet,
    cell_key,
    imports_folder,
    read_sheets,
    write_questions,
    write_sheet,
)
from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import IMPORTED


def row(**changes: Any) -> dict[str, Any]:
    return {
        "line": 2,
        "question_id": "q1",
        "question": "Wer?",
        "language": "de",
        "ground_truth": "Niemand.",
        "answer": "Ich.",
        "contexts": ["eins", "zwei"],
        "chunking": "128-42",
        "embedder": "minilm",
        "retriever": "bm25+dense",
        "generator": "llama",
        "replicate": 1,
        "axes": '{"chunking": "(128, 42)"}',
        "annotator": "vanny",
        "scores": [{"rubric": "points", "criterion": None, "value": 5.0}],
        "comment": None,
        "scored_at": None,
        **changes,
    }


def sheet(name: str = "llama", **changes: Any) -> Sheet:
    return Sheet(**{"name": name, "file": "a.xlsx", "sha256": "0", "mapping": "1", "rows": 0, **changes})


def test_a_sheet_comes_back_as_it_was_put_there(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rows = [row(), row(line=3, answer=None, contexts=[], scores=[], question="odd \ud800")]
    write_sheet(home, "sport", sheet(rejects=("a.xlsx:4: no question",), notes=("odd \ud800",)), rows)
    [found] = read_sheets(home, "sport")
    assert found.sheet == sheet(rows=2, rejects=("a.xlsx:4: no question",), notes=("odd ?",))
    assert found.rows.schema == IMPORTED
    assert found.rows.to_dicts() == [rows[0], {**rows[1], "question": "odd ?"}]


def test_sheets_stand_beside_each_other_by_name_and_one_replaces_that_of_its_name(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_sheet(home, "sport", sheet("mixtral"), [row()])
    write_sheet(home, "sport", sheet("llama"), [row(), row(line=3)])
    write_sheet(home, "sport", sheet("mixtral"), [row(answer="Du.")])
    found = read_sheets(home, "sport")
    assert [(one.sheet.name, one.sheet.rows, len(one.rows)) for one in found] == [
        ("llama", 2, 2),
        ("mixtral", 1, 1),
    ]
    assert found[1].rows["answer"].to_list() == ["Du."]
    assert read_sheets(home, "other") == []


def test_more_rows_than_are_framed_at_once_keep_their_order(tmp_path: Path) -> None:
    with patch.object(bundle, "AT_ONCE", 3):
        write_sheet(Home(tmp_path), "sport", sheet(), [row(line=n) for n in range(2, 10)])
    assert read_sheets(Home(tmp_path), "sport")[0].rows["line"].to_list() == list(range(2, 10))


def test_a_sheet_whose_writing_fails_is_not_there(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with (
        patch.object(bundle, "_facts", side_effect=OSError("no space left")),
        pytest.raises(OSError, match="space"),
    ):
        write_sheet(home, "sport", sheet(), [row()])
    assert read_sheets(home, "sport") == []
    assert list((imports_folder(home, "sport") / "sheets").iterdir()) == []


def test_a_folder_that_a_killed_process_left_is_no_sheet(tmp_path: Path) -> None:
    home = Home(tmp_path)
    half = imports_folder(home, "sport") / "sheets" / ".llama.1.abc"
    half.mkdir(parents=True)
    (half / "sheet.json").write_text("{}")
    assert read_sheets(home, "sport") == []


@pytest.mark.parametrize("name", ["rows.parquet", "sheet.json"])
@pytest.mark.parametrize("data", [b"", b"\x00\x01", b'{"name": "llama"}', b"[]"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    home = Home(tmp_path)
    write_sheet(home, "sport", sheet(), [row()])
    path = imports_folder(home, "sport") / "sheets" / "llama" / name
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=f"{name}: damaged; delete its folder"):
        read_sheets(home, "sport")


def test_questions_are_those_of_all_sheets_each_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_sheet(home, "sport", sheet("b"), [row(), row(question_id="q2", question="Wo?", ground_truth=None)])
    write_sheet(home, "sport", sheet("a"), [row(ground_truth="Keiner.")])
    path = imports_folder(home, "sport") / "questions.jsonl"
    write_questions(home, "sport")
    first = path.stat().st_mtime_ns
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"id": "q1", "question": "Wer?", "ground_truth": "Keiner.", "language": "de"},
        {"id": "q2", "question": "Wo?", "language": "de"},
    ]
    write_questions(home, "sport")
    assert path.stat().st_mtime_ns == first


@pytest.mark.parametrize("replicate", [1, 2])
def test_a_row_has_the_key_of_its_cell(replicate: int) -> None:
    cell = Cell("sport", "128-42", "minilm", "bm25+dense", "llama", replicate=replicate)
    assert cell_key("sport", row(replicate=replicate)) == cell.key

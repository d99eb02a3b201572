from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.schemas import SCORES
from tests.fakes.forking import PROGRAM

ROOT = Path(__file__).parents[2]
OLD, NEW = pl.DataFrame({"n": [1, 2]}), pl.DataFrame({"n": [3]})

KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
import polars as pl
from rag_assay.warehouse.atomic_write import atomic_write
with atomic_write(Path(sys.argv[1])) as temporary:
    pl.DataFrame({"n": [3]}).write_parquet(temporary)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_between_write_and_rename_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    write_parquet(OLD, path)
    done = subprocess.run([sys.executable, "-m", PROGRAM, KILLED, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert read_parquet(path).equals(OLD)
    assert len(list(tmp_path.iterdir())) == 2, "the kill came after the write"
    assert list(tmp_path.glob("*.parquet")) == [path], "what is half done does not look like a table"
    write_parquet(NEW, path)
    assert read_parquet(path).equals(NEW)


def test_an_error_in_the_block_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    write_parquet(OLD, path)
    with pytest.raises(RuntimeError), atomic_write(path) as temporary:  # noqa: PT012 -- the block is what is tested
        temporary.write_bytes(b"half")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["table.parquet"]  # noqa: PTH208 -- names, hidden ones too
    assert read_parquet(path).equals(OLD)


def test_folders_are_made(tmp_path: Path) -> None:
    write_parquet(NEW, tmp_path / "a" / "b" / "table.parquet")
    assert read_parquet(tmp_path / "a" / "b" / "table.parquet").equals(NEW)


@pytest.mark.parametrize("damage", ["torn", "empty", "other", "footer"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "scores.parquet"
    write_parquet(pl.DataFrame({"n": range(1000)}), path)
    whole = path.read_bytes()
    content = {
        "torn": whole[:-200],
        "empty": b"",
        "other": b"id,score\n1,2\n",
        "footer": whole[:-8] + b"\xff" * 8,
    }
    path.write_bytes(content[damage])
    with pytest.raises(CorruptFileError, match=r"scores\.parquet: not a readable Parquet file .*assay run"):
        read_parquet(path)


def test_a_missing_file_and_a_missing_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match=r"none\.parquet: the file is missing"):
        read_parquet(tmp_path / "none.parquet")
    write_parquet(NEW, tmp_path / "other.parquet")
    with pytest.raises(CorruptFileError, match=r"other\.parquet"):
        read_parquet(tmp_path / "other.parquet", ["score"])


def test_a_frame_has_the_columns_and_types_of_its_schema() -> None:
    row: dict[str, object] = {
        "value": None,
        "metric": "mrr@10",
        "question_id": "q1",
        "status": "timeout",
        "reason": "…",
    }
    table = frame([row], SCORES)
    assert table.columns == list(SCORES)
    assert table.schema["value"] == pl.Float64
    assert frame([], SCORES).schema == table.schema


def test_letters_that_no_file_can_hold_become_question_marks() -> None:
    rows = [
        {"name": "a\ud800b", "among": ["x", "\udfff"], "nested": {"deep": "\ud800"}, "n": 1},
        {"name": "Zürich", "among": [], "nested": None, "n": None},
    ]
    schema = {
        "name": pl.String,
        "among": pl.List(pl.String),
        "nested": pl.Struct({"deep": pl.String}),
        "n": pl.Int64,
    }
    found = frame(rows, schema)
    assert found["name"].to_list() == ["a?b", "Zürich"]
    assert found["among"].to_list() == [["x", "?"], []]
    assert found["nested"].to_list() == [{"deep": "?"}, None]
    assert found["n"].to_list() == [1, None]


NUMBERS = [0.5, 0, 1, True, np.float32(0.25), np.int64(2), None]


@pytest.mark.parametrize("order", [1, -1], ids=["a fraction first", "a whole number later"])
def test_whole_numbers_among_fractions_are_floats_at_any_depth(order: int) -> None:
    numbers = NUMBERS[::order]
    inner = pl.Struct({"name": pl.String, "value": pl.Float64, "more": pl.List(pl.Float64)})
    schema = {"value": pl.Float64, "said": pl.List(inner), "one": inner, "n": pl.Int64}
    rows: list[dict[str, object]] = [
        {
            "value": value,
            "said": [{"name": "a", "value": one, "more": numbers} for one in numbers],
            "one": {"value": value, "more": tuple(numbers)},
            "n": 2,
        }
        for value in numbers
    ]
    found = frame(rows, schema)
    assert found.schema == schema
    plain = [0.5, 0.0, 1.0, 1.0, 0.25, 2.0, None][::order]
    assert found["value"].to_list() == plain
    assert [[one["value"] for one in said] for said in found["said"]] == [plain] * len(plain)
    assert found["one"].to_list()[0] == {"name": None, "value": plain[0], "more": plain}
    assert found["n"].to_list() == [2] * len(plain)


@pytest.mark.parametrize("value", ["0.5", "x", {"a": 1}, [1]])
def test_what_is_no_number_is_no_null_among_numbers(value: object) -> None:
    schema = {"said": pl.List(pl.Struct({"value": pl.Float64}))}
    with pytest.raises(TypeError):
        frame([{"said": [{"value": 0.5}, {"value": value}]}], schema)

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rag_assay.assets.indexing import row_files as module
from rag_assay.assets.indexing.row_files import OrderedRows, read_columns, read_rows, read_texts
from tests.assets.indexing.test_index_rows import given, together
from tests.fakes.indexing import HeldRows


@pytest.mark.parametrize("count", [0, 1, 8, 23])
@pytest.mark.parametrize("span", [4, 8, 64])
def test_rows_lie_in_the_order_of_their_ids(
    count: int, span: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    rows = HeldRows(*given(count)) if count else HeldRows(given(1)[0].clear(), np.zeros((0, 6), np.float32))
    ordered = OrderedRows(rows, tmp_path, span)
    passed = list(ordered.batches())
    assert passed == list(rows.batches()) == list(ordered.batches()), "passed on as they came, both times"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chunks.arrow", "vectors.npy"]
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.shape == (count, 6)
    with pa.memory_map(str(tmp_path / "chunks.arrow")) as file:
        reader = pa.ipc.open_file(file)
        sizes = [reader.get_batch(n).num_rows for n in range(reader.num_record_batches)]
    assert sizes == [4] * (count // 4) + [count % 4] * (count % 4 > 0)
    if not count:
        assert read_columns(tmp_path, ("chunk_id", "row_hash")).is_empty()
        return
    whole = together(passed).sort_by("chunk_id").combine_chunks()
    assert together(read_rows(tmp_path, np.arange(count))).combine_chunks() == whole
    assert np.array_equal(vectors.reshape(-1), whole["vector"].combine_chunks().flatten().to_numpy())
    some = np.array([row for row in (0, 3, 4, 22) if row < count])
    assert together(read_rows(tmp_path, some)).combine_chunks() == whole.take(pa.array(some)).combine_chunks()
    columns = read_columns(tmp_path, ("row_hash", "chunk_id"))
    assert columns["chunk_id"].to_list() == whole["chunk_id"].to_pylist()
    assert columns["row_hash"].to_list() == whole["row_hash"].to_pylist()
    assert list(read_texts(tmp_path, "text")) == whole["text"].to_pylist()
    assert list(read_texts(tmp_path, "title")) == [""] * count


def test_a_pass_that_stopped_leaves_no_file(tmp_path: Path) -> None:
    ordered = OrderedRows(HeldRows(*given()), tmp_path)
    passing = ordered.batches()
    next(passing)
    passing.close()
    assert not list(tmp_path.iterdir())
    ordered.write()
    ordered.write()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_column_that_is_held_holds_no_other_in_memory(tmp_path: Path) -> None:
    chunks, vectors = given(50)
    ids = pl.format("of-a-long-name-{}", "chunk_id")
    longer = chunks.with_columns(chunk_id=ids, text=pl.Series(["long " * 20_000] * 50))
    OrderedRows(HeldRows(longer, vectors), tmp_path).write()
    before = pa.total_allocated_bytes()
    held = read_columns(tmp_path, ("chunk_id",))
    assert held["chunk_id"].len() == 50
    assert pa.total_allocated_bytes() - before < 1_000_000 < 50 * 100_000

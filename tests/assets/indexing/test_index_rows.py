from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assay.assets.indexing import index_rows as module
from rag_assay.assets.indexing.index_rows import StoredRows
from rag_assay.warehouse.errors import AssayError, CorruptFileError
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import CHUNKS
from tests.fakes.indexing import HeldRows

COUNT = 23


def given(count: int = COUNT) -> tuple[pl.DataFrame, np.ndarray]:
    rows: list[dict[str, object]] = [
        {
            "chunk_id": f"{(n * 7) % count:03}",
            "doc_id": "d",
            "text": f"text {n} 'quoted' ümlaut 🐟",
            "published_at": None if n % 3 else f"20{n:02}-05",
            "keywords": [["a", "b"], [], None][n % 3],
        }
        for n in range(count)
    ]
    vectors = np.random.default_rng(1).standard_normal((count, 6)).astype(np.float32)
    return frame(rows, CHUNKS), vectors


def store(
    folder: Path, chunks: pl.DataFrame, vectors: np.ndarray, groups: tuple[int, int] = (5, 7)
) -> StoredRows:
    """Write both files in row groups of other sizes, the embeddings with a column that nobody asked for."""
    chunks.write_parquet(folder / "chunks.parquet", row_group_size=groups[0])
    vector = pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))
    table = chunks.select(pl.lit("x").alias("extra"), "chunk_id").with_columns(vector).to_arrow()
    pq.write_table(table, folder / "embeddings.parquet", row_group_size=groups[1])
    return StoredRows(folder / "chunks.parquet", folder / "embeddings.parquet")


def together(batches: Any) -> Any:
    return pa.Table.from_batches(list(batches))


@pytest.mark.parametrize("groups", [(5, 7), (1, 30), (30, 1)])
def test_files_stream_as_what_they_hold(
    groups: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks, vectors = given()
    whole = together(HeldRows(chunks, vectors).batches())
    monkeypatch.setattr(module, "BATCH", 4)
    stored = store(tmp_path, chunks, vectors, groups)
    assert (stored.count, stored.dimensions) == (COUNT, 6)
    parts = list(stored.batches())
    assert [len(part) for part in parts] == [4, 4, 4, 4, 4, 3], "whatever the row groups"
    assert together(parts).equals(whole)
    assert np.array_equal(np.concatenate(list(stored.vectors())), vectors)
    assert stored.ids().to_list() == HeldRows(chunks, vectors).ids().to_list() == chunks["chunk_id"].to_list()


def test_any_column_and_the_vector_change_the_hash_of_their_row_only() -> None:
    chunks, vectors = given(6)

    def hashes(chunks: pl.DataFrame, vectors: np.ndarray) -> list[str]:
        return together(HeldRows(chunks, vectors).batches())["row_hash"].to_pylist()

    before = hashes(chunks, vectors)
    assert len(set(before)) == 6
    third = pl.int_range(pl.len()) == 2
    for change in (
        pl.when(third).then(pl.lit("new")).otherwise("title").alias("title"),
        pl.when(third).then(9).otherwise("ordinal").alias("ordinal"),
        pl.when(third).then(pl.lit(["a"])).otherwise("keywords").alias("keywords"),
        pl.when(third).then(pl.lit("2001")).otherwise("published_at").alias("published_at"),
    ):
        after = hashes(chunks.with_columns(change), vectors)
        assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, True, True, True]
    moved = vectors.copy()
    moved[2, 5] = np.nextafter(moved[2, 5], np.float32(9))
    assert [a == b for a, b in zip(before, hashes(chunks, moved), strict=True)].index(False) == 2


def test_files_of_other_chunks_are_refused(tmp_path: Path) -> None:
    chunks, vectors = given()
    store(tmp_path, chunks, vectors)
    turned = tmp_path / "turned.parquet"
    chunks.reverse().write_parquet(turned)
    with pytest.raises(AssayError, match="does not hold the chunks of"):
        list(StoredRows(turned, tmp_path / "embeddings.parquet").batches())
    chunks.head(3).write_parquet(turned)
    with pytest.raises(AssayError, match=r"holds 3 chunks, but .* 23"):
        StoredRows(turned, tmp_path / "embeddings.parquet")


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    stored = store(tmp_path, *given())
    path = tmp_path / "embeddings.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptFileError, match=r"embeddings\.parquet: not a readable Parquet file"):
        list(stored.vectors())
    path.unlink()
    with pytest.raises(CorruptFileError, match=r"embeddings\.parquet"):
        StoredRows(tmp_path / "chunks.parquet", path)

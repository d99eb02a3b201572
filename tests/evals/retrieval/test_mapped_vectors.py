from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assay.evals.retrieval import index as module
from rag_assay.evals.retrieval.index import OpenIndex, products, read_vectors, take_rows
from rag_assay.warehouse.errors import CorruptFileError
from tests.fakes.indexing import build_index

TEXTS = ["the ferry sails", "a quay", "the lamp of the ferry", "noon", "a quay"]


@pytest.mark.parametrize("rows", [1, 7, 64, 65_536])
def test_parts_of_a_mapped_file_multiply_as_the_whole_does(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAPPED_ROWS", rows)
    vectors = np.random.default_rng(1).standard_normal((100, 383)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = read_vectors(tmp_path / "vectors.npy", (100, 383))
    expected = np.einsum("ij,j->i", vectors, vectors[3]).astype(np.float64)
    for _ in range(2):
        assert np.array_equal(products(mapped, vectors[3]), expected), "to the last bit, and again"
    assert np.array_equal(products(vectors, vectors[3]), expected)
    some = np.array([99, 0, 5, 5])
    for held in (mapped, mapped, vectors):
        assert np.array_equal(take_rows(held, some), vectors[some]), "what was let go of is read again"


def test_the_vectors_of_an_index_are_those_of_its_table(tmp_path: Path) -> None:
    index = build_index(tmp_path, TEXTS)
    assert isinstance(index.vectors, np.memmap)
    rows = index.table.search().select(["chunk_id", "vector"]).to_list()
    assert np.array_equal(
        index.vectors, [row["vector"] for row in sorted(rows, key=lambda one: one["chunk_id"])]
    )
    assert index.places(["c004", "c000"]).tolist() == [4, 0]


def test_a_torn_file_and_one_of_another_index_are_named(tmp_path: Path) -> None:
    build_index(tmp_path, TEXTS)
    path = tmp_path / "rows" / "vectors.npy"
    np.save(path, np.load(path)[:3])
    with pytest.raises(
        CorruptFileError, match=r"vectors\.npy: the vectors of the index are damaged \(it holds"
    ):
        _ = OpenIndex(tmp_path).vectors
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptFileError, match=r"vectors\.npy"):
        _ = OpenIndex(tmp_path).vectors

"""Chunks are read where they lie: the same as from the table, however many there are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.indexing.row_files import BATCH, CHUNKS, ROWS
from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.retrieval.chunk_spans import MappedChunks, SortedKeyIndex
from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.warehouse.errors import CorruptFileError
from tests.fakes.indexing import build_index, query, searched

WORDS = ("ferry", "quay", "lamp", "storm")


def text(number: int) -> str:
    return f"{WORDS[number % 4]} {WORDS[number // 4 % 4]} {number % 50}"


@pytest.fixture(scope="module", params=[0, 1, 3, BATCH, BATCH + 1])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    """Fewer chunks than are wanted, as many as a block holds, one more; texts and vectors tie."""
    count: int = request.param
    titles = [f"About {WORDS[number % 3]}" if number % 5 else None for number in range(count)]
    vectors = [np.eye(4, dtype=np.float32)[number % 4] for number in range(count)]
    columns = {"title": titles, "chunk_id": [f"c{number:05}" for number in range(count)]}
    texts = [text(number) for number in range(count)]
    return build_index(tmp_path_factory.mktemp("index"), texts, vectors if count else None, columns)


def test_a_filter_takes_rows_from_a_ranking_and_changes_no_score(index: OpenIndex) -> None:
    asked = Query("ferry 7 about", np.full(4, 0.5, np.float32))
    for retriever in (Bm25(k=len(index) + 1), Bm25(k=len(index) + 1, title=0), Dense(k=len(index) + 1)):
        whole = searched(retriever, asked, index)
        for allowed in (np.zeros(len(index), np.bool_), np.arange(len(index)) % 2 == 1):
            found = searched(retriever, Query(asked.text, asked.vector, allowed=allowed), index)
            kept = allowed[whole.rows] if len(whole) else np.zeros(0, np.bool_)
            assert found.rows.tolist() == whole.rows[kept].tolist()
            assert found.scores.tolist() == whole.scores[kept].tolist(), "bit by bit"
    assert not len(searched(Bm25(), query("nowhere"), index)), "a word that no chunk holds"


def test_rows_are_those_of_the_table(index: OpenIndex) -> None:
    table = pl.DataFrame(pl.from_arrow(index.table.search().select(index.stored.names).to_arrow()))
    assert index.chunks.equals(table.sort("chunk_id"))
    rows = [row for row in (len(index) - 1, 0, len(index) // 2, 0) if 0 <= row < len(index)]
    names = ("title", "doc_id", "start", "keywords")
    expected = index.chunks.select(names)[rows].rows()
    assert index.stored.at(rows, *names) == expected
    for row in rows:
        chunk = index.chunks.row(row, named=True)
        assert index.positions[chunk["chunk_id"]] == row
        assert index.passage(chunk["doc_id"], chunk["start"], chunk["end"]) == chunk["text"]
    with pytest.raises(KeyError):
        index.passage("no such document", 0, 1)
    assert dict(index.spans.rows).keys() == set(index.chunks["doc_id"])


def test_ranking_reads_no_texts(index: OpenIndex) -> None:
    fresh = OpenIndex(index.folder)
    found = searched(Bm25(), query("ferry"), fresh)
    fresh.spans.at(found.rows)
    assert "chunks" not in vars(fresh)
    assert "text" not in fresh._columns


def test_a_torn_file_says_so(index: OpenIndex, tmp_path: Path) -> None:
    shutil.copytree(index.folder, tmp_path / "index")
    path = tmp_path / "index" / ROWS / CHUNKS
    whole = path.read_bytes()
    for part in (b"", whole[: len(whole) // 2], whole[:-3]):
        path.write_bytes(part)
        with pytest.raises(CorruptFileError, match="Delete the folder"):
            OpenIndex(tmp_path / "index").column("chunk_id")
    path.write_bytes(whole)
    with pytest.raises(CorruptFileError, match="instead of"):
        MappedChunks(path.parent, len(index) + 1)


def test_an_open_index_outlives_its_folder(tmp_path: Path) -> None:
    """Another index is committed, and the one before removed, while a process reads it."""
    index = build_index(tmp_path / "one", ["a ferry", "a quay", "a lamp"])
    first = index.stored.at([2], "text")
    build_index(tmp_path / "two", ["another ferry"], None)
    shutil.rmtree(tmp_path / "one")
    assert index.stored.at([2], "text") == first == [("a lamp",)]


def test_places_are_those_of_a_dict() -> None:
    keys = sorted({f"k{number * 7919 % 1000}" for number in range(300)} | {"", "ä", "zz", "K"})
    places = SortedKeyIndex(pl.Series(keys))
    assert dict(places) == {key: place for place, key in enumerate(keys)}
    for missing in ("k", "k1000", "~", "a", "ö"):
        assert missing not in places
    assert "a" not in SortedKeyIndex(pl.Series([], dtype=pl.String))

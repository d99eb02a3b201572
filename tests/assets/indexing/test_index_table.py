from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.indexing.index_recipe import FACTS, read_facts
from rag_assay.assets.indexing.index_table import TABLE, build, open_table
from rag_assay.assets.indexing.lexical import open_lexical
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import CHUNKS
from tests.fakes.forking import PROGRAM
from tests.fakes.indexing import HeldRows

ROOT = Path(__file__).parents[3]
TEXTS = ["the ferry sails at nine", "a mooring costs twelve pounds", "Straßenlärm am Hafen"]
VECTORS = np.eye(3, 4, dtype=np.float32)


def chunks(*texts: str) -> pl.DataFrame:
    """Chunks whose ids are not in the order of the rows."""
    rows: list[dict[str, object]] = [
        {"chunk_id": f"c{9 - n}", "doc_id": "d", "ordinal": n, "text": text} for n, text in enumerate(texts)
    ]
    return frame(rows, CHUNKS)


def rows() -> HeldRows:
    return HeldRows(chunks(*TEXTS), VECTORS)


def test_an_index_finds_vectors_and_words(tmp_path: Path) -> None:
    facts = build(tmp_path, rows())
    assert (facts.chunks, facts.dimensions, facts.made, facts.added) == (3, 4, "whole", 3)
    table = open_table(tmp_path)
    assert table.count_rows() == 3
    (nearest,) = table.search(VECTORS[1], vector_column_name="vector").limit(1).to_list()
    assert (nearest["chunk_id"], nearest["text"]) == ("c8", TEXTS[1]), "each text has its own vector"
    (worded,) = table.search("ferry", query_type="fts").limit(3).to_list()
    assert worded["chunk_id"] == "c9"
    lexical = open_lexical(tmp_path / "lexical")
    assert lexical.lengths.tolist() == [3, 5, 5], "in the order of the chunk ids: c7, c8, c9"
    found, counts = lexical.postings("hafen")
    assert (found.tolist(), counts.tolist()) == ([0], [1])


def test_vectors_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match="3 chunks but 2 vectors"):
        HeldRows(chunks(*TEXTS), VECTORS[:2])


def test_the_columns_for_filters_are_indexed(tmp_path: Path) -> None:
    given = chunks(*TEXTS).with_columns(
        pl.Series("published_at", ["2019-05", "2019-06-30T23:59:00+02:00", "last week"]),
        pl.Series("language", ["en", "en", None]),
        pl.Series("keywords", [["sea", "ships"], [], None]),
    )
    build(tmp_path, HeldRows(given, VECTORS))
    table = open_table(tmp_path)
    kinds = {index.columns[0]: index.index_type for index in table.list_indices()}
    assert kinds == {
        "text": "FTS",
        "chunk_id": "BTree",
        "doc_id": "BTree",
        "published_on": "BTree",
        "language": "Bitmap",
        "keywords": "LabelList",
    }
    wanted = {
        "published_on >= DATE '2019-05-01'": {"c9", "c8"},
        "published_on = DATE '2019-06-30'": {"c8"},
        "published_on IS NULL": {"c7"},
        "array_has(keywords, 'ships')": {"c9"},
        "language = 'en' AND NOT array_has_any(keywords, ['sea'])": {"c8"},
    }
    for where, ids in wanted.items():
        found = table.search().where(where).select(["chunk_id"]).to_arrow()["chunk_id"].to_pylist()
        assert set(found) == ids, where
        ranked = table.search("ferry mooring hafen", query_type="fts").where(where, prefilter=True)
        assert {row["chunk_id"] for row in ranked.limit(9).to_list()} == ids, f"full text, {where}"


def test_a_table_is_readable_only_at_its_tag(tmp_path: Path) -> None:
    import lancedb

    build(tmp_path, rows(), tag="d1g357")
    table = lancedb.connect(str(tmp_path / "lancedb")).open_table(TABLE)
    table.delete("chunk_id = 'c7'")  # what comes after the tag is not part of the index
    assert table.count_rows() == 2
    assert open_table(tmp_path).count_rows() == 3
    assert list(table.tags.list()) == [read_facts(tmp_path).tag] == ["d1g357"]
    table.tags.delete("d1g357")
    with pytest.raises(CorruptFileError, match="the index is damaged"):
        open_table(tmp_path)


def test_an_index_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match=f"{tmp_path.name}: the index is damaged"):
        open_table(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", '{"tag": 1}', "[]"])
def test_torn_facts_are_named(tmp_path: Path, content: str) -> None:
    (tmp_path / FACTS).write_text(content)
    with pytest.raises(CorruptFileError, match=r"the index is damaged \(facts.json"):
        read_facts(tmp_path)


KILLED = """
import os, signal, sys
from pathlib import Path
from rag_assay.assets.indexing import index_table
from tests.fakes.indexing import HeldRows
from tests.assets.indexing.test_index_table import TEXTS, VECTORS, chunks
index_table._index_words = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
rows = HeldRows(chunks(*TEXTS, "of the killed build"), VECTORS.repeat(2, 0)[:4])
index_table.build(Path(sys.argv[1]), rows)
"""


def test_a_build_that_was_killed_is_not_read_and_is_made_again(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", PROGRAM, KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "lancedb").is_dir(), "it had begun"
    with pytest.raises(CorruptFileError):
        open_table(tmp_path)
    build(tmp_path, rows())
    assert sorted(row["text"] for row in open_table(tmp_path).search().to_list()) == sorted(TEXTS)

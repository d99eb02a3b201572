from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assets.indexing.lexical import open_lexical, plain_tokens
from assets.indexing.table import TABLE, TAG, build, open_table
from warehouse.errors import CorruptFileError
from warehouse.parquet import frame
from warehouse.schemas import CHUNKS

ROOT = Path(__file__).parents[2]
TEXTS = ["the ferry sails at nine", "a mooring costs twelve pounds", "Straßenlärm am Hafen"]
VECTORS = np.eye(3, 4, dtype=np.float32)


def chunks(*texts: str) -> pl.DataFrame:
    """Chunks whose ids are not in the order of the rows."""
    rows: list[dict[str, object]] = [
        {"chunk_id": f"c{9 - n}", "doc_id": "d", "ordinal": n, "text": text} for n, text in enumerate(texts)
    ]
    return frame(rows, CHUNKS)


def test_words_are_split_alike_for_chunks_and_questions() -> None:
    assert plain_tokens("Straßenlärm: Art. 5(2), L'Été_1 中文") == [
        "strassenlärm",
        "art",
        "5",
        "2",
        "l",
        "été_1",
        "中文",
    ]
    assert plain_tokens("STRASSENLÄRM") == plain_tokens("straßenlärm")
    assert plain_tokens("… – !") == []


def test_an_index_finds_vectors_and_words(tmp_path: Path) -> None:
    facts = build(tmp_path, chunks(*TEXTS), VECTORS)
    assert (facts.chunks, facts.dimensions) == (3, 4)
    table = open_table(tmp_path)
    assert table.count_rows() == 3
    (nearest,) = table.search(VECTORS[1], vector_column_name="vector").limit(1).to_list()
    assert (nearest["chunk_id"], nearest["text"]) == ("c8", TEXTS[1]), "each text has its own vector"
    (worded,) = table.search("ferry", query_type="fts").limit(3).to_list()
    assert worded["chunk_id"] == "c9"
    lexical = open_lexical(tmp_path / "lexical")
    assert lexical.words == sorted({word for text in TEXTS for word in plain_tokens(text)})
    assert lexical.lengths.tolist() == [3, 5, 5], "in the order of the chunk ids: c7, c8, c9"
    rows, counts = lexical.postings("hafen")
    assert (rows.tolist(), counts.tolist()) == ([0], [1])
    assert not len(lexical.postings("unknown")[0])


def test_vectors_of_another_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="3 chunks but 2 vectors"):
        build(tmp_path, chunks(*TEXTS), VECTORS[:2])


def test_a_table_is_readable_only_at_its_tag(tmp_path: Path) -> None:
    import lancedb

    build(tmp_path, chunks(*TEXTS), VECTORS)
    table = lancedb.connect(str(tmp_path / "lancedb")).open_table(TABLE)
    table.delete("chunk_id = 'c7'")  # what comes after the tag is not part of the index
    assert table.count_rows() == 2
    assert open_table(tmp_path).count_rows() == 3
    table.tags.delete(TAG)
    with pytest.raises(CorruptFileError, match="the index is damaged"):
        open_table(tmp_path)


def test_an_index_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match=f"{tmp_path.name}: the index is damaged"):
        open_table(tmp_path)


KILLED = """
import os, signal, sys
from pathlib import Path
from assets.indexing import table
from tests.assets.test_indexing import TEXTS, VECTORS, chunks
table.write_lexical = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
table.build(Path(sys.argv[1]), chunks(*TEXTS, "of the killed build"), VECTORS.repeat(2, 0)[:4])
"""


def test_a_build_that_was_killed_is_not_read_and_is_made_again(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "lancedb").is_dir(), "it had begun"
    with pytest.raises(CorruptFileError):
        open_table(tmp_path)
    build(tmp_path, chunks(*TEXTS), VECTORS)
    assert sorted(row["text"] for row in open_table(tmp_path).search().to_list()) == sorted(TEXTS)

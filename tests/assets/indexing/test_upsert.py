from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rag_assay.assets.indexing import upsert as module
from rag_assay.assets.indexing.index_recipe import FACTS, IndexFacts, IndexRecipe, read_facts
from rag_assay.assets.indexing.index_table import build, open_table
from rag_assay.assets.indexing.lexical import open_lexical
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import CHUNKS
from tests.fakes.forking import PROGRAM
from tests.fakes.indexing import HeldRows

ROOT = Path(__file__).parents[3]
WORDS = [
    "ferry",
    "quay",
    "lamp",
    "keeper",
    "storm",
    "tide",
    "anchor",
    "crane",
    "pilot",
    "buoy",
    "bell",
    "rope",
]
COUNT = 300
QUERIES = ("ferry storm", "lamp", "bell rope anchor pilot", "zebra")


def corpus() -> tuple[pl.DataFrame, np.ndarray]:
    random = np.random.default_rng(3)
    rows: list[dict[str, object]] = [
        {
            "chunk_id": f"it's {number:04}",
            "doc_id": f"d{number // 3}",
            "ordinal": number % 3,
            "text": " ".join(random.choice(WORDS, random.integers(3, 30))),
            "language": "en" if number % 2 else "de",
            "published_at": f"20{number % 20:02}-0{number % 9 + 1}",
            "keywords": [WORDS[number % 5]],
        }
        for number in range(COUNT)
    ]
    vectors = random.standard_normal((COUNT, 16)).astype(np.float32)
    return frame(rows, CHUNKS), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def edited() -> tuple[pl.DataFrame, np.ndarray]:
    """The corpus with 2 chunks of another text and vector, 1 of another title, 3 new and 4 vanished ones."""
    chunks, vectors = corpus()
    vectors = vectors.copy()
    vectors[[10, 20]] = vectors[[20, 10]]
    number = pl.int_range(pl.len())
    chunks = chunks.with_columns(
        pl.when(number.is_in([10, 20])).then(pl.lit("a zebra on the ferry")).otherwise("text").alias("text"),
        pl.when(number == 30).then(pl.lit("New title")).otherwise("title").alias("title"),
    )
    new = chunks.head(3).with_columns(chunk_id=pl.concat_str(pl.lit("a new "), "chunk_id"))
    kept = [n for n in range(COUNT) if n not in {0, 50, 51, 299}]
    return pl.concat([new, chunks[kept]]), np.concatenate([vectors[[7, 8, 9]], vectors[kept]])


def hashes(folder: Path) -> dict[str, str]:
    """Every file of a folder, by its content."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def inodes(folder: Path) -> set[int]:
    return {path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def content(folder: Path) -> pl.DataFrame:
    rows = pl.from_arrow(open_table(folder).search().to_arrow())
    assert isinstance(rows, pl.DataFrame)
    return rows.sort("chunk_id")


def found(folder: Path) -> list[Any]:
    """What searches by words, by vectors and by filters give, with scores; ties in the order of ids."""
    table = open_table(folder)
    results: list[Any] = []
    for text in QUERIES:
        ranked = table.search(text, query_type="fts").limit(COUNT).to_list()
        results.append(sorted((-row["_score"], row["chunk_id"]) for row in ranked))
    for vector in corpus()[1][::40]:
        query = table.search(vector, vector_column_name="vector").distance_type("cosine").limit(20)
        results.append([(row["chunk_id"], row["_distance"]) for row in query.to_list()])
    for where in ("published_on < DATE '2004-03-01'", "array_has(keywords, 'lamp')", "language = 'de'"):
        rows = table.search().where(where).select(["chunk_id"]).to_list()
        results.append(sorted(row["chunk_id"] for row in rows))
    return results


def same(one: Path, other: Path) -> None:
    assert content(one).equals(content(other))
    assert found(one) == found(other)
    first, second = open_lexical(one / "lexical"), open_lexical(other / "lexical")
    assert first.words == second.words
    assert first.rows.tolist() == second.rows.tolist()


def upserted(tmp_path: Path) -> tuple[Path, Path, IndexFacts]:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    build(old, HeldRows(*corpus()), tag="one")
    facts = build(new, HeldRows(*edited()), tag="two", previous=old)
    return old, new, facts


def test_only_what_differs_is_written_and_nothing_tells_it_from_a_whole_build(tmp_path: Path) -> None:
    _, new, facts = upserted(tmp_path)
    assert (facts.made, facts.added, facts.changed, facts.removed) == ("upsert", 3, 3, 4)
    assert (facts.dead, facts.upserts) == (7, 1)
    (whole := tmp_path / "whole").mkdir()
    assert build(whole, HeldRows(*edited())).made == "whole"
    same(new, whole)
    assert not any(results == [] for results in found(new)), "each search found something"


def test_the_previous_index_stays_as_it_was(tmp_path: Path) -> None:
    (old := tmp_path / "old").mkdir()
    build(old, HeldRows(*corpus()))
    before, results = hashes(old), found(old)
    places = {path: path.stat().st_ino for path in old.rglob("*")}
    opened = open_table(old)
    previous = old
    for number in range(3):  # each on the one before
        (new := tmp_path / f"new{number}").mkdir()
        rows = edited() if number % 2 == 0 else corpus()
        assert build(new, HeldRows(*rows), previous=previous).made == "upsert"
        assert hashes(old) == before
        previous = new
    assert {path: path.stat().st_ino for path in old.rglob("*")} == places
    assert opened.count_rows() == COUNT, "a reader that had it open goes on"
    assert found(old) == results


def test_files_of_rows_are_shared(tmp_path: Path) -> None:
    old, new, _ = upserted(tmp_path)
    data = next((old / "lancedb").rglob("data/*.lance"))
    assert (new / data.relative_to(old)).samefile(data)
    assert inodes(old) & inodes(new) == {data.stat().st_ino}


def test_files_are_copied_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    old, new, facts = upserted(tmp_path)
    assert facts.made == "upsert"
    assert inodes(old).isdisjoint(inodes(new))
    data = next((old / "lancedb").rglob("data/*.lance"))
    assert (new / data.relative_to(old)).read_bytes() == data.read_bytes()
    (whole := tmp_path / "whole").mkdir()
    build(whole, HeldRows(*edited()))
    same(new, whole)


def test_an_unchanged_corpus_writes_no_row(tmp_path: Path) -> None:
    _, new, _ = upserted(tmp_path)
    (again := tmp_path / "again").mkdir()
    facts = build(again, HeldRows(*edited()), previous=new)
    assert (facts.made, facts.added, facts.changed, facts.removed, facts.dead) == ("upsert", 0, 0, 0, 7)
    same(again, new)


@pytest.mark.parametrize(
    ("share", "upserts", "made"), [(0.3, 50, "upsert"), (9 / COUNT, 50, "whole"), (0.3, 0, "whole")]
)
def test_a_table_is_made_whole_when_much_differs(
    share: float, upserts: int, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REBUILD_SHARE", share)  # 10 of 296 rows differ
    monkeypatch.setattr(module, "MAX_UPSERTS", upserts)
    assert upserted(tmp_path)[2].made == made


def test_dead_rows_pile_up_to_the_bound_only(tmp_path: Path) -> None:
    """Each round changes 40 of 300 rows: 40, 80, then 120 dead ones would be above 30 %."""
    chunks, vectors = corpus()
    (previous := tmp_path / "0").mkdir()
    build(previous, HeldRows(chunks, vectors))
    made = []
    for number in range(1, 5):
        (folder := tmp_path / str(number)).mkdir()
        changed = pl.int_range(pl.len()) < 40
        title = pl.when(changed).then(pl.lit(f"title {number}")).otherwise("title")
        facts = build(folder, HeldRows(chunks.with_columns(title=title), vectors), previous=previous)
        made.append((facts.made, facts.dead))
        previous = folder
    assert made == [("upsert", 40), ("upsert", 80), ("whole", 0), ("upsert", 40)]


def test_another_recipe_or_another_width_starts_anew(tmp_path: Path) -> None:
    (old := tmp_path / "old").mkdir()
    build(old, HeldRows(*corpus()))
    (new := tmp_path / "new").mkdir()
    assert build(new, HeldRows(*corpus()), recipe=IndexRecipe(m=8), previous=old).made == "whole"
    chunks, vectors = corpus()
    assert build(new, HeldRows(chunks, vectors[:, :8]), previous=old).made == "whole"


@pytest.mark.parametrize("damage", ["facts", "data", "folder"])
def test_a_damaged_previous_index_is_no_start(damage: str, tmp_path: Path) -> None:
    (old := tmp_path / "old").mkdir()
    build(old, HeldRows(*corpus()))
    if damage == "facts":
        (old / FACTS).write_text("{")
    elif damage == "data":
        next(old.rglob("data/*.lance")).unlink()
    else:
        old = tmp_path / "gone"
    (new := tmp_path / "new").mkdir()
    assert build(new, HeldRows(*edited()), previous=old).made == "whole"
    assert len(content(new)) == 299


KILLED = """
import os, signal, sys
from pathlib import Path
from rag_assay.assets.indexing import index_table
from tests.fakes.indexing import HeldRows
from tests.assets.indexing.test_upsert import edited
real = getattr(index_table, sys.argv[3])
def stop(*given):
    real(*given)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(index_table, sys.argv[3], stop)
index_table.build(Path(sys.argv[2]), HeldRows(*edited()), tag="two", previous=Path(sys.argv[1]))
"""


@pytest.mark.parametrize("after", ["clone", "upsert", "_index_columns", "_index_words"])
def test_a_kill_leaves_the_old_one_readable_and_the_next_run_mends(after: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    build(old, HeldRows(*corpus()), tag="one")
    before, results = hashes(old), found(old)
    arguments = [sys.executable, "-m", PROGRAM, KILLED, str(old), str(new), after]
    assert subprocess.run(arguments, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    with pytest.raises(CorruptFileError):
        open_table(new)
    assert hashes(old) == before
    assert found(old) == results
    assert build(new, HeldRows(*edited()), tag="two", previous=old).made == "upsert"
    (whole := tmp_path / "whole").mkdir()
    build(whole, HeldRows(*edited()))
    same(new, whole)
    assert read_facts(new).tag == "two"

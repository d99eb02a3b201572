from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from rag_assay.assets.engine.builder import build_key, checks_of
from rag_assay.assets.engine.stage import BuildContext, KeyOutcome
from rag_assay.assets.indexes import Indexes
from rag_assay.assets.indexing import index_table
from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.assets.indexing.index_table import open_table
from rag_assay.assets.recipes.build_half import Build, Corpus
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CHUNKS
from tests.fakes.forking import PROGRAM

KEY = "town.t16.minilm"
OTHER = "village.t16.minilm"


def stage(index: dict[str, object] | None = None) -> Indexes:
    given = {"name": "town", "sources": ["docs"], **({"index": index} if index is not None else {})}
    corpora = {
        "town": Corpus.model_validate(given),
        "village": Corpus.model_validate({"name": "village", "sources": ["docs"]}),
    }
    indexes = {KEY: ("town", "t16", "minilm"), OTHER: ("village", "t16", "minilm")}
    return Indexes(Build(corpora=corpora, indexes=indexes))


ROOT = Path(__file__).resolve().parents[2]


def give(work: BuildContext, texts: list[str], key: str = KEY) -> None:
    """Commit chunks and embeddings of these texts, as their stages would have."""
    rows: list[dict[str, object]] = [
        {"chunk_id": digest(text), "doc_id": "d", "text": text, "title": f"number {number}"}
        for number, text in enumerate(texts)
    ]
    chunks = frame(rows, CHUNKS)
    random = [np.random.default_rng(list(text.encode())).standard_normal(16) for text in texts]
    vectors = np.array([vector / np.linalg.norm(vector) for vector in random], np.float32)
    vector = pl.Series("vector", vectors, dtype=pl.Array(pl.Float32, 16))
    identity = digest(texts)
    for name, stored, stage_key in (
        ("chunks", chunks, key.rpartition(".")[0]),
        ("embeddings", chunks.select("chunk_id").with_columns(vector), key),
    ):
        write_parquet(stored, work.store.folder(name, identity) / f"{name}.parquet")
        work.store.commit(Artifact(name, stage_key, identity, identity))


def built(indexes: Indexes, work: BuildContext, key: str = KEY) -> KeyOutcome:
    outcome = build_key(indexes, key, work)
    assert outcome.ok, outcome.error
    return outcome


def texts(work: BuildContext, artifact: Artifact | None) -> list[str]:
    assert artifact is not None
    rows = open_table(work.store.folder("indexes", artifact.identity)).search().to_list()
    return sorted(row["text"] for row in rows)


def test_an_index_is_built_once_then_upserted(tmp_path: Path) -> None:
    work = BuildContext(Home(tmp_path))
    first = [f"text {number}" for number in range(40)]
    give(work, first)
    one = built(stage(), work)
    assert one.artifact is not None
    assert one.artifact.meta["made"] == "whole"
    assert one.artifact.meta["search"] == {"kind": "exact"}
    assert one.artifact.meta["recall_at_10"] == 1
    assert {check.name: check.passed for check in one.checks} == {"all_rows": True, "recall": True}
    assert not built(stage(), work).computed, "nothing changed"

    second = [*first[:39], "another text"]
    give(work, second)
    two = built(stage(), work)
    assert two.artifact is not None
    assert two.artifact.meta["made"] == "upsert"
    assert two.artifact.meta["rows"] == {"added": 1, "changed": 0, "removed": 1}
    assert two.artifact.data_version != one.artifact.data_version
    assert texts(work, two.artifact) == sorted(second)
    assert texts(work, one.artifact) == sorted(first), "the old one is there as it was"

    tags = open_table(work.store.folder("indexes", two.artifact.identity)).tags.list()
    assert list(tags) == [two.artifact.data_version]

    give(work, first)
    back = built(stage(), work)
    assert not back.computed, "taking the change back computes nothing"
    assert back.artifact is not None
    assert back.artifact.identity == one.artifact.identity


def test_building_again_and_a_torn_index_start_anew(tmp_path: Path) -> None:
    work = BuildContext(Home(tmp_path))
    give(work, ["one", "two", "three"])
    first = built(stage(), work).artifact
    assert first is not None
    again = build_key(stage(), KEY, work, again=True).artifact
    assert again is not None
    assert (again.identity, again.meta["made"]) == (first.identity, "whole")
    told: list[str] = []
    work.progress = lambda label, _done, _of: told.append(label)
    (work.store.folder("indexes", first.identity) / "facts.json").unlink()
    assert work.store.current("indexes", KEY) is None
    mended = built(stage(), work)
    assert mended.computed
    reason = "facts.json cannot be read (No such file or directory)"
    assert told == [f"indexes of {KEY} is damaged ({reason}) and is built again"]
    assert texts(work, mended.artifact) == ["one", "three", "two"]


@pytest.mark.parametrize("step", ["_write", "_index_columns", "_index_words", "write_facts"])
def test_what_is_killed_while_it_is_made_again_stays_as_it_was(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = BuildContext(Home(tmp_path))
    give(work, ["one", "two", "three"])
    built(stage(), work)
    real = getattr(index_table, step)

    def stop(*given: Any) -> None:
        real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index_table, step, stop)
        with pytest.raises(KeyboardInterrupt):
            build_key(stage(), KEY, work, again=True)
    left = work.store.current("indexes", KEY)
    assert texts(work, left) == ["one", "three", "two"]
    assert left is not None
    assert work.store.damage(left) is None
    assert texts(work, built(stage(), work).artifact) == ["one", "three", "two"]


def test_incomplete_embeddings_are_not_indexed(tmp_path: Path) -> None:
    work = BuildContext(Home(tmp_path))
    give(work, ["one", "two"])
    meta = {"incomplete": "1 of 2 chunks is too long"}
    work.store.commit(Artifact("embeddings", KEY, "other", "other", complete=False, meta=meta))
    outcome = build_key(stage(), KEY, work)
    assert outcome.error == (
        "indexes of town.t16.minilm: the embeddings are not complete: 1 of 2 chunks is too long"
    )
    assert outcome.artifact is None


def test_another_recipe_makes_just_the_indexes_of_its_corpus_stale(tmp_path: Path) -> None:
    work = BuildContext(Home(tmp_path))
    for key in (KEY, OTHER):
        give(work, ["one", "two"], key)
        built(stage(), work, key)
    changed = stage({"exact_below": 10})
    assert stage({}).fresh(KEY, work.store), "an empty recipe is the default one"
    assert changed.fresh(KEY, work.store) is None
    assert changed.fresh(OTHER, work.store)
    assert set(changed.recipes(KEY)) == {"index.town"}
    assert changed.build_plan.corpora["town"].recipes() == {}, "documents and chunks do not hang on it"


def test_recall_is_measured_stored_and_checked(tmp_path: Path) -> None:
    work = BuildContext(Home(tmp_path))
    give(work, [f"text {number}" for number in range(1_000)])
    good = built(stage({"search": "hnsw", "ef_construction": 60}), work)
    assert good.artifact is not None
    assert good.artifact.meta["search"]["kind"] == "hnsw"
    assert good.artifact.meta["recall_at_10"] >= 0.95
    assert all(check.passed for check in good.checks)
    approximate = stage({"search": "ivf_pq", "partitions": 50, "nprobes": 1, "refine_factor": 1})
    poor = build_key(approximate, KEY, work)
    assert poor.artifact is not None
    assert poor.blocked == poor.error, "retrievers would be measured by what the index misses"
    assert poor.artifact.meta["search"] == {"kind": "ivf_pq", "nprobes": 1, "refine_factor": 1}
    (check,) = (check for check in checks_of(poor.artifact) if check.name == "recall")
    assert not check.passed
    assert f"{poor.artifact.meta['recall_at_10']:.3f}" in check.description
    assert "raise ef, nprobes or refine_factor" in check.description


def test_a_corpus_says_how_its_indexes_are_searched() -> None:
    corpus = Corpus.model_validate({"name": "town", "sources": ["docs"]})
    assert corpus.index == IndexRecipe()
    with pytest.raises(ValidationError, match=r"index\.exact"):
        Corpus.model_validate({"name": "town", "sources": ["docs"], "index": {"exact": True}})


BUILD = """
import fcntl, json, sys
from pathlib import Path
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from tests.assets.test_indexes import KEY, stage
from rag_assay.warehouse.paths import Home
import lancedb  # loaded before the race begins
def unknown(*_): raise OSError
known = fcntl.flock
print("ready", flush=True)
for line in sys.stdin:
    fcntl.flock = known if Path(line).parent.name == "locks" else unknown
    work = BuildContext(Home(Path(line.strip())))
    outcome = build_key(stage(), KEY, work, again=True)
    print(json.dumps([outcome.error, outcome.artifact and outcome.artifact.folder]), flush=True)
"""


def test_two_builders_of_one_index_leave_a_whole_one(tmp_path: Path) -> None:
    """Where the file system knows no locks, both build at once; nobody removes files of the other."""
    command = [sys.executable, "-m", PROGRAM, BUILD]
    with ExitStack() as stack:
        builders = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            )
            for _ in range(2)
        ]
        for builder in builders:
            assert builder.stdout is not None
            assert builder.stdout.readline() == "ready\n"
        for number, locks in product(range(4), ("locks", "without")):
            work = BuildContext(Home(tmp_path / locks / str(number)))
            give(work, [f"text {number} {n}" for n in range(40)])
            for builder in builders:
                assert builder.stdin is not None
                builder.stdin.write(f"{work.home.root}\n")
                builder.stdin.flush()
            ended = [json.loads(builder.stdout.readline()) for builder in builders if builder.stdout]
            assert [error for error, _ in ended] == [None, None]
            artifact = work.store.current("indexes", KEY)
            assert artifact is not None
            assert artifact.folder in {folder for _, folder in ended}
            assert work.store.damage(artifact) is None
            assert len(texts(work, artifact)) == 40
        for builder in builders:
            assert builder.stdin is not None
            builder.stdin.close()

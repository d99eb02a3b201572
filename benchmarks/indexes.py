"""What an index costs: memory and seconds of a large one, approximate search, an upsert.

    python -m benchmarks.indexes [--full]

Chunks are random words, vectors random (384 numbers): the hardest case for an approximate search, as there
are no neighbourhoods. Printed: the highest resident memory of the index asset for 200,000 chunks, searched
exactly, beyond that of its process before it began; of 60,000 chunks (with --full 200,000) searched
approximately the same, recall@10 and the time of a search against exact ones; the seconds of an index of
5,183 chunks, made whole and by an upsert after one chunk has changed; the seconds of the lexical index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.indexes import Indexes
from rag_assay.assets.indexing.index_recipe import read_facts
from rag_assay.assets.indexing.index_table import nearest, open_table
from rag_assay.assets.indexing.lexical import invert, open_lexical
from rag_assay.assets.indexing.row_files import ROWS, read_texts
from rag_assay.assets.recipes.build_half import Build, Corpus
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.parquet import frame, write_batches
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import CHUNKS, Schema

LARGE, APPROXIMATE, SMALL = 200_000, 60_000, 5_183
DIMENSIONS = 384
GROUP = 8_192
KEY = "bench.random.random"


def chunks(count: int, changed: int | None) -> Iterator[pl.DataFrame]:
    """Yield chunks of 40 to 160 words, drawn as often as words are; ``changed`` has another text."""
    vocabulary = np.array([f"w{number}" for number in range(50_000)])
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    weights /= weights.sum()
    for first in range(0, count, GROUP):
        random = np.random.default_rng(first)
        size = min(GROUP, count - first)
        lengths = random.integers(40, 160, size)
        words = np.split(random.choice(vocabulary, lengths.sum(), p=weights), np.cumsum(lengths)[:-1])
        rows: list[dict[str, object]] = [
            {
                "chunk_id": f"{number:08}" + ("changed" if number == changed else ""),
                "doc_id": f"{number // 10:07}",
                "ordinal": number % 10,
                "text": " ".join(text),
                "title": f"Document {number // 10}",
                "language": "en",
                "published_at": f"20{number % 24:02}-0{number % 9 + 1}-11",
                "keywords": [f"k{number % 97}"],
            }
            for number, text in enumerate(words, first)
        ]
        yield frame(rows, CHUNKS)


def vectors(count: int, changed: int | None) -> Iterator[pl.DataFrame]:
    """Yield a random unit vector a chunk."""
    for first in range(0, count, GROUP):
        size = min(GROUP, count - first)
        found = np.random.default_rng(first + 1).standard_normal((size, DIMENSIONS), np.float32)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        ids = [f"{n:08}" + ("changed" if n == changed else "") for n in range(first, first + size)]
        vector = pl.Series("vector", found, dtype=pl.Array(pl.Float32, DIMENSIONS))
        yield pl.DataFrame({"chunk_id": ids}).with_columns(vector)


def store(home: Home, count: int, changed: int | None = None) -> None:
    """Write chunks and embeddings as their stages would have."""
    store_of, identity = BuildContext(home).store, f"{count}-{changed}"
    write_batches(chunks(count, changed), CHUNKS, store_of.folder("chunks", identity) / "chunks.parquet")
    schema: Schema = {"chunk_id": pl.String, "vector": pl.Array(pl.Float32, DIMENSIONS)}
    write_batches(
        vectors(count, changed), schema, store_of.folder("embeddings", identity) / "embeddings.parquet"
    )
    store_of.commit(Artifact("chunks", "bench.random", identity, identity))
    store_of.commit(Artifact("embeddings", KEY, identity, identity))


def resident(what: str) -> float:
    """Return VmRSS (now) or VmHWM (the highest so far) of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1000


def build(home: Home, recipe: dict[str, Any]) -> dict[str, Any]:
    """Build the index asset in this process; return its metadata, seconds and MB beyond the start."""
    corpus = Corpus.model_validate({"name": "bench", "sources": ["none"], "index": recipe})
    stage = Indexes(Build(corpora={"bench": corpus}, indexes={KEY: ("bench", "random", "random")}))
    start, begin = resident("VmRSS"), time.perf_counter()
    outcome = build_key(stage, KEY, BuildContext(home))
    seconds = time.perf_counter() - begin
    if outcome.artifact is None or outcome.error:
        raise SystemExit(outcome.error)
    checks = {check.name: check.passed for check in outcome.checks}
    meta = {key: value for key, value in outcome.artifact.meta.items() if key != "checks"}
    found = {"identity": outcome.artifact.identity, "wall": seconds, "memory": resident("VmHWM") - start}
    return {**meta, **found, "passed": checks}


def built(home: Home, recipe: dict[str, Any]) -> dict[str, Any]:
    """Build the index asset in a process of its own."""
    arguments = [sys.executable, "-m", "benchmarks.indexes", "--build", str(home.root), json.dumps(recipe)]
    done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def large(home: Home) -> None:
    """Print what an index of 200,000 chunks costs."""
    store(home, LARGE)
    found = built(home, {"search": "exact"})
    cost = f"{found['wall']:.1f} s, {found['memory']:,.0f} MB beyond the start (< 2,000)"
    print(f"{LARGE:,} chunks, exact: {cost}")
    lexical(home, found["identity"])


def lexical(home: Home, identity: str) -> None:
    """Print what the lexical index of an index that was built costs."""
    folder = BuildContext(home).store.folder("indexes", identity)
    begin = time.perf_counter()
    invert(read_texts(folder / ROWS, "text"), home.root / "lexical")
    middle = time.perf_counter()
    chunks = len(open_lexical(home.root / "lexical").lengths)
    opened = time.perf_counter() - middle
    print(f"  lexical index of {chunks:,} chunks: {middle - begin:.2f} s, opened in {opened:.3f} s")


def approximate(home: Home, count: int, kind: str) -> None:
    """Print recall and time of an approximate search against exact ones."""
    store(home, count)
    found = built(home, {"search": kind})
    cost = f"{found['wall']:.1f} s, {found['memory']:,.0f} MB beyond the start"
    print(f"{count:,} chunks, {kind}: {cost}, recall@10 {found['recall_at_10']:.3f} (>= 0.95)")
    print(f"  searched with {found['search']}")
    folder = BuildContext(home).store.folder("indexes", found["identity"])
    table, search = open_table(folder), read_facts(folder).search
    stored = np.concatenate([part["vector"].to_numpy() for part in vectors(count, None)])
    random = np.random.default_rng(99)
    noise = random.standard_normal((50, DIMENSIONS), np.float32)
    questions = stored[random.choice(count, 50)] + 0.75 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    hits, seconds = 0, np.zeros(3)
    for question in questions / np.linalg.norm(questions, axis=1, keepdims=True):
        clock = [time.perf_counter()]
        scores = np.einsum("ij,j->i", stored, question)
        best = np.argpartition(-scores, 10)[:10]
        clock.append(time.perf_counter())
        ids = nearest(table, question, 10, search)["chunk_id"].to_pylist()
        clock.append(time.perf_counter())
        flat = table.search(question, vector_column_name="vector").distance_type("cosine")
        flat = flat.bypass_vector_index()
        flat.limit(10).select(["chunk_id", "_distance"]).to_arrow()
        clock.append(time.perf_counter())
        hits += len({f"{row:08}" for row in best} & set(ids))
        seconds += np.diff(clock)
    exact, ann, scan = 1000 * seconds / len(questions)
    print(f"  50 other questions: recall@10 {hits / 500:.3f}; {ann:.1f} ms a search")
    print(f"  exact search takes {exact:.1f} ms in memory, {scan:.1f} ms in the table")
    store(home, count, changed=7)
    after = built(home, {"search": kind})
    recall = after["recall_at_10"]
    print(f"  one chunk changed: {after['made']} in {after['wall']:.1f} s, recall@10 {recall:.3f}")


def small(home: Home) -> None:
    """Print what one changed chunk of 5,183 costs, and what a whole build does."""
    store(home, SMALL)
    whole = [built(home, {})]
    lexical(home, whole[0]["identity"])
    upserts = []
    for changed in (5, 6, 7):
        store(home, SMALL, changed)
        upserts.append(built(home, {}))
        assert upserts[-1]["made"] == "upsert", "an upsert was to be measured"  # noqa: S101
        with tempfile.TemporaryDirectory(prefix="assay-bench-") as other:
            store(Home(Path(other)), SMALL, changed)
            whole.append(built(Home(Path(other)), {}))
    taken = [", ".join(f"{run['wall']:.2f}" for run in runs) for runs in (upserts, whole)]
    print(f"{SMALL:,} chunks, one changed: upsert {taken[0]} s; made whole {taken[1]} s")


def main() -> None:
    """Measure all of it, each in a home of its own."""
    if sys.argv[1:2] == ["--build"]:
        import lancedb  # noqa: F401 -- counts as the start of the process, as in any run of several indexes

        print(json.dumps(build(Home(Path(sys.argv[2])), json.loads(sys.argv[3]))))
        return
    count = LARGE if "--full" in sys.argv else APPROXIMATE
    for measure in (small, large, lambda home: approximate(home, count, "hnsw")):
        with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
            measure(Home(Path(folder)))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()

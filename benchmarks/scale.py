"""What many chunks cost: processor time, memory of every process, disk; and a plan for fifty times as many.

    python -m benchmarks.scale [CHUNKS …]        50000 200000 1000000

Chunks are generated text (word frequencies fall as rank^-1.5), vectors of 384 numbers in clusters of 500.
Each step is a process of its own, whose highest resident memory is measured, pages of mapped files included:
the index is built, then 300 questions are ranked by bm25, dense (exact and approximate) and their reciprocal
rank fusion. Slopes are those between the two largest sizes; what goes beyond the largest is extrapolated, and
says so.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.indexes import resident
from benchmarks.scale_data import KEY, ask, questions, store
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.indexes import Indexes
from rag_assay.assets.recipes.build_half import Build, Corpus
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.study.registry import read_retriever
from rag_assay.warehouse.paths import Home

SIZES = (50_000, 200_000, 1_000_000)
ASKED = 300
WANTED = 50_000_000  # chunks of the plan
MOST = 2_000  # MB that no process may exceed
DEEP = 100
RETRIEVERS: dict[str, Any] = {
    "bm25": {"bm25": {"k": 10}},
    "dense exact": {"dense": {"k": 10, "search": "exact"}},
    "dense ann": {"dense": {"k": 10, "search": "ann"}},
    "rrf": {"fuse": {"rrf": {"k": 60}, "of": [{"bm25": {"k": DEEP}}, {"dense": {"k": DEEP}}], "k": 10}},
}
Figures = dict[str, Any]


def build(home: Home, count: int) -> Figures:
    """Build the index, with an approximate one of its vectors."""
    corpus = Corpus.model_validate({"name": "bench", "sources": ["none"], "index": {"search": "hnsw"}})
    stage = Indexes(Build(corpora={"bench": corpus}, indexes={KEY: ("bench", "generated", "clustered")}))
    told = Steps()
    outcome = build_key(stage, KEY, BuildContext(home, progress=told.begin))
    if outcome.artifact is None or outcome.error:
        raise SystemExit(outcome.error)
    told.begin("")
    folder = BuildContext(home).store.folder("indexes", outcome.artifact.identity)
    sizes = {part.name: size(part) for part in sorted(folder.iterdir())}
    meta = outcome.artifact.meta
    return {
        "folder": str(folder),
        "steps": told.taken,
        "memory": told.most,
        "disk": sizes,
        "search": meta["search"],
        "recall": meta["recall_at_10"],
        "chunks": count,
    }


class Steps:
    """The seconds and the highest resident memory of each step of a build."""

    def __init__(self) -> None:
        self.taken: dict[str, tuple[float, float]] = {}
        self.most = 0.0
        self._name, self._at = "", time.perf_counter()

    def begin(self, what: str, _done: int = 0, _of: int = 0) -> None:
        """End the step before, and begin another."""
        peak = resident("VmHWM")
        self.most = max(self.most, peak)
        if self._name:
            self.taken[self._name] = (time.perf_counter() - self._at, peak)
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew (proc(5))
        self._name, self._at = what.partition(" of ")[0], time.perf_counter()


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    return sum(one.stat().st_size for one in [path, *path.rglob("*")] if one.is_file())


def rank(home: Home, name: str, folder: str) -> Figures:
    """Ask all questions one after another, as a cell's ranking does."""
    asked = questions(home)
    begin = time.perf_counter()
    searcher = read_retriever(RETRIEVERS[name]).open(OpenIndex(Path(folder)), RetrievalContext())
    found, seconds = [], []
    for text, vector in asked:
        at = time.perf_counter()
        found.append(searcher.search(Query(text, vector)).rows.tolist())
        seconds.append(time.perf_counter() - at)
    searcher.close()
    later = np.array(seconds[1:])
    return {
        "all": time.perf_counter() - begin,
        "first": seconds[0],
        "median": float(np.median(later)),
        "p95": float(np.quantile(later, 0.95)),
        "found": found,
    }


def step(what: str, home: Home, count: int, *rest: str) -> Figures:
    """Do one step in a process of its own; return its figures, its seconds and its memory."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.scale", "--step", what, str(home.root), str(count), *rest]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"{what} of {count:,} chunks ended with {done.returncode}")
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return {**found, "wall": time.perf_counter() - begin}


def in_process(what: str, home: Home, count: int, rest: list[str]) -> Figures:
    """Do one step here."""
    found: Figures = {}
    if what == "store":
        store(home, count)
        ask(home, count, ASKED)
    elif what == "build":
        found = build(home, count)
    else:
        found = rank(home, what, *rest)
    used = resource.getrusage(resource.RUSAGE_SELF)
    memory = max(resident("VmHWM"), found.get("memory", 0.0))
    return {**found, "cpu": used.ru_utime + used.ru_stime, "memory": memory}


def measured(count: int) -> dict[str, Figures]:
    """Measure one size in a home of its own, and print it."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        home = Home(Path(folder))
        found = {"store": step("store", home, count)}
        print(f"\n{count:,} chunks (written in {found['store']['wall']:.0f} s)", flush=True)
        built = found["build"] = step("build", home, count)
        print(f"  build        {cost(built)}")
        print(f"    {built['search']}, recall@10 {built['recall']:.3f}")
        print("    " + ", ".join(f"{what} {s:.0f} s {m:,.0f} MB" for what, (s, m) in built["steps"].items()))
        disk = ", ".join(f"{part} {held / 1e6:,.0f} MB" for part, held in built["disk"].items())
        print(f"    on disk: {disk}", flush=True)
        for name in RETRIEVERS:
            one = found[name] = step(name, home, count, built["folder"])
            rest = f"then median {1000 * one['median']:.1f} ms, p95 {1000 * one['p95']:.1f} ms"
            print(f"  {name:12} {cost(one)}; first question {one['first']:.2f} s, {rest}", flush=True)
        pairs = zip(found["dense ann"].pop("found"), found["dense exact"].pop("found"), strict=True)
        print(
            f"  dense ann finds {np.mean([len({*a} & {*b}) / len(b) for a, b in pairs]):.3f} of the exact ten"
        )
    return found


def cost(found: Figures) -> str:
    """Return seconds and memory of a process in words."""
    over = "" if found["memory"] < MOST else f" (MORE than {MOST:,})"
    return (
        f"{found['wall']:6.1f} s, {found['cpu']:6.1f} s of processor, {found['memory']:,.0f} MB at most{over}"
    )


def slope(sizes: list[int], values: list[float]) -> float:
    """Return what one more chunk costs, between the two largest sizes.

    >>> slope([10, 20, 40], [9.0, 5.0, 7.0])
    0.1
    """
    if len(sizes) < 2:
        return values[-1] / sizes[-1]
    return (values[-1] - values[-2]) / (sizes[-1] - sizes[-2])


def plan(results: dict[int, dict[str, Figures]]) -> None:
    """Print the slopes, and what WANTED chunks cost in shards of the largest size that was measured."""
    sizes = sorted(results)
    largest, shards = sizes[-1], -(-WANTED // sizes[-1])
    print(
        f"\nslopes between {' and '.join(f'{size:,}' for size in sizes[-2:])} chunks, a million chunks each"
    )
    for name in ("build", *RETRIEVERS):
        seconds, memory = (
            1e6 * slope(sizes, [results[size][name][what] for size in sizes]) for what in ("cpu", "memory")
        )
        print(f"  {name:12} {seconds:8.1f} s of processor, {memory:8,.0f} MB")
    whole = results[largest]
    disk = sum(whole["build"]["disk"].values()) * shards / 1e9
    hours = shards * whole["build"]["cpu"] / 3600
    worst = max(found["memory"] for name, found in whole.items() if name != "store")
    print(f"\nplan for {WANTED:,} chunks: {shards} shards of {largest:,}, each as it was measured")
    print(f"  build: {hours:.1f} processor hours; {disk:,.0f} GB of indexes; {worst / 1000:.1f} GB a process")
    for machines in (1, 5, 25):
        wall = -(-shards // machines) * whole["build"]["wall"] / 3600
        held = disk * -(-shards // machines) / shards
        print(f"  {machines:2} machines, a shard at a time: {wall:5.1f} h to build, {held:,.0f} GB on each")
    for name in RETRIEVERS:
        seconds = shards * whole[name]["median"]
        print(f"  one question by {name:12} over all shards: {seconds:6.2f} s on one core")
    print(
        "  Extrapolated: that shards cost alike, and that machines do not wait for one disk or object store."
    )
    print("  Not there: rankings joined over shards. Not measured here: embedding (`make bench-embeddings`).")


def main() -> None:
    """Measure every size, and print the plan."""
    if sys.argv[1:2] == ["--step"]:
        what, root, count, *rest = sys.argv[2:]
        print(json.dumps(in_process(what, Home(Path(root)), int(count), rest)))
        return
    sizes = sorted(int(size) for size in sys.argv[1:]) or list(SIZES)
    results = {size: measured(size) for size in sizes}
    plan(results)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()

"""What the vector cache costs as it grows: putting 16,384 vectors, looking up 1,024 and 16,384 of them.

    python -m benchmarks.vector_cache [VECTORS …]        250000 1000000 4000000

Random vectors of 384 numbers; what is looked up is drawn from all that is there. Each size goes on from the
one before, in one process, and a lookup is measured in the process that put, and first in a new one. Medians
of ROUNDS; the mean of a put holds the joining and dividing of segments that came with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.vectors import VectorCache

SIZES = (250_000, 1_000_000, 4_000_000)
WIDTH, BATCH, FEW, ROUNDS = 384, 16_384, 1_024, 7
TARGET = 2.0  # times what the least size takes
Figures = dict[str, Any]


def hashes(numbers: Sequence[int]) -> list[str]:
    """Return the SHA-256 of generated texts."""
    return [hashlib.sha256(b"text %d" % number).hexdigest() for number in numbers]


def grown(cache: VectorCache, first: int, end: int) -> list[float]:
    """Put vectors in batches; return the seconds of each put."""
    random = np.random.default_rng(first)
    seconds = []
    for begin in range(first, end, BATCH):
        numbers = range(begin, min(begin + BATCH, end))
        names = hashes(numbers)
        vectors = random.standard_normal((len(numbers), WIDTH), np.float32)
        started = time.perf_counter()
        cache.put(names, vectors)
        seconds.append(time.perf_counter() - started)
    return seconds


def read(files: Sequence[Path]) -> None:
    """Let the system hold all files in memory: what is measured is a lookup, not a disk."""
    os.sync()
    for path in files:
        with path.open("rb") as file:
            while file.read(1 << 22):
                pass


def looked_up(cache: VectorCache, size: int, count: int, rounds: int = ROUNDS) -> float:
    """Return the median seconds of looking up ``count`` texts."""
    random, seconds = np.random.default_rng(count), []
    for _ in range(rounds):
        names = hashes(random.integers(0, size, count).tolist())
        started = time.perf_counter()
        found = cache.take(names)
        seconds.append(time.perf_counter() - started)
        if not found.known.all():
            raise SystemExit(f"{int((~found.known).sum())} of {count} vectors are missing")
    return statistics.median(seconds)


def measured(folder: Path, sizes: Sequence[int]) -> list[Figures]:
    """Let one cache grow to each of some sizes, and measure it at each."""
    cache, figures, there = VectorCache(Home(folder), "bench"), [], 0
    for size in sizes:
        puts = grown(cache, there, size)
        there = size
        files = list(cache.folder.glob("*.vectors"))
        read(files)
        few, many = looked_up(cache, size, FEW), looked_up(cache, size, BATCH)
        command = [sys.executable, "-m", "benchmarks.vector_cache", "--look", str(folder), str(size)]
        fresh = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        figures.append(
            {
                "vectors": size,
                "put": statistics.median(puts[-16:]),
                "put with joining and dividing": statistics.mean(puts),
                "look up 1,024": few,
                "look up 16,384": many,
                "first look up of a process, 1,024": fresh["seconds"],
                "MB of that process": fresh["memory"],
                "files": len(files),
                "MB on disk": sum(file.stat().st_size for file in files) / 1e6,
            }
        )
    return figures


def main() -> None:
    """Print a table, a column a size, and how many times the last one's figures are the first one's."""
    if "--look" in sys.argv:
        folder, size = sys.argv[-2:]
        seconds = looked_up(VectorCache(Home(Path(folder)), "bench"), int(size), FEW, 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(json.dumps({"seconds": seconds, "memory": memory}))
        return
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        figures = measured(Path(name), sorted(sizes))
    for label in figures[0]:
        numbers = [figure[label] for figure in figures]
        seconds = label.startswith(("put", "look", "first"))
        cells = "".join(f"{n * 1e3:>14,.1f}" if seconds else f"{n:>14,.0f}" for n in numbers)
        times = f"   x {numbers[-1] / numbers[0]:.2f}" if seconds else ""
        wanted = f", target <= {TARGET:.0f}" if label in {"put", "look up 1,024", "look up 16,384"} else ""
        print(f"{label + (' (ms)' if seconds else ''):<44}{cells}{times}{wanted}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"peak memory of the process that put and looked up: {memory:,.0f} MB")


if __name__ == "__main__":
    main()

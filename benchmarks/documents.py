"""How fast pages become documents, in how much memory, and what one changed page costs.

    python -m benchmarks.documents [PAGES] [FOLDER]

PAGES synthetic pages (20,000 unless said) of about 3 kB and then, when FOLDER holds `*.html.gz`, as many real
ones, each made another by a line of its own. Printed: documents a second by several workers and, of the first
2,000 pages, by one process; the highest resident memory of all processes together; the seconds of a second
build after one page has changed.
"""

from __future__ import annotations

import gzip
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from rag_assay.assets.cleaning.batches import Cleaning, Known
from rag_assay.assets.documents import Documents
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.assets.recipes.build_half import Build
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.pages import manifest_digest, read_manifest, write_body, write_manifest
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import PAGES
from rag_assay.warehouse.source import Source

SOURCE = "bench"
_TEXT = (
    "harbour ferry pilot buoy mooring summer winter office radio storm ticket island crane quay lamp keeper "
    "tide anchor cargo rope signal captain sailor bridge market street council budget school teacher library "
    "garden river forest mountain village railway station engine carriage timetable passenger luggage the a "
    "of to in is on that by it for was with as at from be are or an had not but has its which were will can"
)
_WORDS = _TEXT.split()


def synthetic(number: int) -> str:
    """Return an article of about 3 kB, unlike all others, with navigation and a footer."""
    draw = random.Random(number)  # noqa: S311 -- text, no secret
    paragraphs = "".join(f"<p>{' '.join(draw.choices(_WORDS, k=70)).capitalize()}.</p>" for _ in range(5))
    links = "".join(f'<li><a href="/{n}">{draw.choice(_WORDS)}</a></li>' for n in range(8))
    return (
        f'<!DOCTYPE html><html lang="en"><head><title>Page {number}</title>'
        f'<meta property="article:published_time" content="2024-05-{number % 28 + 1:02}"></head><body>'
        f"<nav><ul>{links}</ul></nav><main><article><h1>Page {number}</h1>{paragraphs}</article></main>"
        f"<footer><p>All rights reserved, number {number}</p></footer></body></html>"
    )


def real(folder: Path, count: int) -> Iterator[str]:
    """Yield real pages again and again, each with a paragraph of its own."""
    pages = [
        gzip.decompress(path.read_bytes()).decode("utf-8", "replace") for path in folder.rglob("*.html.gz")
    ]
    for number in range(count):
        yield pages[number % len(pages)].replace("</body>", f"<p>Copy {number}</p></body>", 1)


def store(home: Home, bodies: Iterator[str]) -> None:
    """Write pages as a crawl would have."""
    rows: list[dict[str, object]] = []
    for number, text in enumerate(bodies):
        body = text.encode()
        rows.append(
            {
                "url": f"https://bench.example/{number}",
                "content_type": "text/html; charset=utf-8",
                "fetched_at": datetime(2024, 6, 1, tzinfo=UTC),
                "sha256": write_body(home, body),
                "size": len(body),
                "fields": "{}",
            }
        )
    write_manifest(home, SOURCE, frame(rows, PAGES))


class Memory(threading.Thread):
    """Looks five times a second how much memory this process and its children hold."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.ended = 0, threading.Event()

    def run(self) -> None:
        """Look until told to stop."""
        while not self.ended.wait(0.2):
            self.peak = max(self.peak, _resident(os.getpid()))

    def stop(self) -> float:
        """Stop looking and return the highest sum in MB; pages that processes share count in each of them."""
        self.ended.set()
        self.join()
        return self.peak / 1e6


def _resident(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        threads = [path.name for path in Path(f"/proc/{process}/task").iterdir()]
        for thread in threads:
            children += Path(f"/proc/{process}/task/{thread}/children").read_text().split()
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(_resident(int(child)) for child in set(children))


def build(home: Home) -> tuple[float, dict[str, object]]:
    """Build the documents of the pages of now; return the seconds and the metadata."""
    stage = Documents(Build(sources={SOURCE: Source.model_validate({"reader": "folder", "path": "."})}))
    work = BuildContext(home)
    work.store.commit(Artifact("pages", SOURCE, "pages", manifest_digest(read_manifest(home, SOURCE))))
    begin = time.perf_counter()
    outcome = build_key(stage, SOURCE, work)
    if outcome.artifact is None or outcome.error:
        raise SystemExit(outcome.error)
    return time.perf_counter() - begin, outcome.artifact.meta


def measure(name: str, count: int, bodies: Iterator[str], changed: str) -> None:
    """Print the figures for some pages."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        home = Home(Path(folder))
        store(home, bodies)
        manifest = read_manifest(home, SOURCE)
        few = manifest.head(min(2000, count))
        begin = time.perf_counter()
        alone = Cleaning(SOURCE, home, None, home.root / "alone", workers=0)
        for _ in alone.run(few, Known(), lambda *_: None):
            pass
        one = len(few) / (time.perf_counter() - begin)
        memory = Memory()
        memory.start()
        seconds, meta = build(home)
        peak = memory.stop()
        body = write_body(home, changed.encode())
        is_first = pl.col("url") == "https://bench.example/0"
        manifest = manifest.with_columns(sha256=pl.when(is_first).then(pl.lit(body)).otherwise("sha256"))
        write_manifest(home, SOURCE, manifest)
        again, after = build(home)
        size = manifest["size"].sum() / count
        print(f"{name}: {count} pages of {size:,.0f} bytes, {meta['documents']} documents")
        print(f"  {count / seconds:.0f} pages/s by several processes, {one:.0f} by one, peak {peak:.0f} MB")
        reused = f"{after['pages_cleaned']} cleaned, {after['pages_reused']} reused"
        print(f"  one page changed: {again:.1f} s, {reused}")
        print(f"  load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main() -> None:
    """Measure synthetic pages, and real ones where a folder is given."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    measure("synthetic", count, map(synthetic, range(count)), synthetic(count))
    if len(sys.argv) > 2:
        pages = real(Path(sys.argv[2]), count)
        measure("real", count, pages, synthetic(count))


if __name__ == "__main__":
    main()

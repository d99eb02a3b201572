"""Measures the import of a sheet of 100,000 rows: seconds and memory, the first time and again."""

from __future__ import annotations

import argparse
import csv
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COLUMNS = ("question", "contexts", "ground_truth", "answer", "retrieve_methods", "Score", "chunk_strategie")
WORDS = (
    "der",
    "das",
    "Spiel",
    "Tor",
    "Trainer",
    "Verein",
    "Ball",
    "Karte",
    "Minute",
    "Sieg",
    "gegen",
    "nach",
    "ist",
)
MAPPING = """\
study: bench
language: de
columns: {question: question, answer: answer, contexts: contexts, ground_truth: ground_truth}
cell:
  chunking: {column: chunk_strategie}
  retriever: {column: retrieve_methods}
  generator: llama
scores: {points: Score}
"""


def main() -> None:
    """Write sheets of so many rows and import each twice, in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--one", nargs=2, metavar=("SHEET", "HOME"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        _import(*map(Path, arguments.one))
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("sheet.xlsx", "sheet.csv"):
            path = Path(scratch, name)
            _write(path, arguments.rows)
            print(f"{name}: {arguments.rows:,} rows, {path.stat().st_size / 1e6:.1f} MB", flush=True)
            path.with_name(f"{name}.yaml").write_text(MAPPING)
            for _ in range(2):
                command = [sys.executable, "-m", "benchmarks.imports", "--one", str(path), f"{path}.home"]
                subprocess.run(command, check=True)


def _import(path: Path, home: Path) -> None:
    import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
    from rag_assay.evals.spreadsheet_import.import_run import import_sheet
    from rag_assay.evals.spreadsheet_import.mapping import read_mapping
    from rag_assay.warehouse.paths import Home

    begin, mapping = (time.perf_counter(), time.process_time()), path.with_name(f"{path.name}.yaml")
    found = import_sheet(path, mapping, read_mapping(mapping), Home(home))
    seconds, computed = time.perf_counter() - begin[0], time.process_time() - begin[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    what = f"{found.rows:,} rows, {found.added:,} scores added"
    print(f"  {seconds:5.1f} s ({computed:.1f} s of a processor), {peak:,.0f} MB at most: {what}", flush=True)


def _write(path: Path, count: int) -> None:
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *_rows(count)])
        return
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet()
    for row in (COLUMNS, *_rows(count)):
        sheet.append(row)
    book.save(path)


def _rows(count: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows of 16 combinations x 4 chunk sizes, in which each answer stands once."""
    draw = random.Random(7)  # noqa: S311 -- no secret
    contexts: list[str] = []
    methods = [[one for n, one in enumerate(("a", "b", "c", "d")) if bits >> n & 1] for bits in range(16)]
    for number in range(count):
        question, cell = divmod(number, 64)
        contexts = [_text(draw, 60) for _ in range(3)] if cell % 2 == 0 else contexts
        yield (
            f"Frage {question}: {WORDS[question % len(WORDS)]}?",
            str(contexts),
            f"Wahrheit {question}.",
            f"Antwort {number}: {_text(draw, 25)}",
            str(methods[cell % 16]),
            (0, 3, 5)[number % 3],
            str((128 * (1 + cell // 16), 42)),
        )


def _text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=words))


if __name__ == "__main__":
    main()

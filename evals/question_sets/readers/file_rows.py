"""Rows of any table: JSON lines, JSON, CSV, Parquet, and folders of Hugging Face datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rag_assay.evals.question_sets.readers.contract import whole_json
from rag_assay.evals.question_sets.readers.table import csv_objects, json_objects, parquet_rows
from rag_assay.warehouse.arrow_files import arrow_files, arrow_rows
from rag_assay.warehouse.errors import InputError

KINDS = ".jsonl, .json, .csv, .tsv, .parquet, .arrow, or a folder that `Dataset.save_to_disk` wrote"


def file_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    name = path.name.lower().removesuffix(".gz")
    if path.is_dir() or name.endswith(".arrow"):
        rows = (row for file in arrow_files(path) for row in arrow_rows(file))
        for number, row in enumerate(rows, 1):
            yield f"row {number}", row
    elif name.endswith((".jsonl", ".ndjson")):
        yield from _objects(path, json_objects(path))
    elif name.endswith(".json"):
        data = whole_json(path)
        if not isinstance(data, list):
            raise InputError(f"{path}: expected a list of objects, not {type(data).__name__}")
        items = ((f"item {number}", one) for number, one in enumerate(data, 1))
        yield from _objects(path, items)
    elif name.endswith((".csv", ".tsv")):
        yield from _objects(path, csv_objects(path))
    elif name.endswith(".parquet"):
        for number, row in enumerate(parquet_rows(path).iter_rows(named=True), 1):
            yield f"row {number}", row
    else:
        raise InputError(f"{path}: cannot be read as a table; give {KINDS}")


def stamp_of(path: Path) -> tuple[Any, ...]:
    """Return what changes if a table does: name, size and time of each of its files."""
    try:
        files = arrow_files(path) if path.is_dir() else [path]
        return tuple((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files)
    except OSError as error:
        raise InputError(f"there is no {path}") from error


def _objects(path: Path, items: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for place, one in items:
        if not isinstance(one, Mapping):
            why = one if isinstance(one, str) else f"expected an object, not {type(one).__name__}"
            raise InputError(f"{path}: {place}: {why}")
        yield place, one

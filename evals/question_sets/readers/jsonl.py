"""Questions as lines of JSON, or as a list in a JSON document: one object a question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_assay.evals.question_sets.readers.contract import (
    QuestionRecord,
    Records,
    Row,
    SetFile,
    lines_of_file,
)
from rag_assay.evals.question_sets.readers.records import cells_of, naming_of, rows_of
from rag_assay.warehouse.errors import InputError


def read_jsonl(file: SetFile, form: str | None = None) -> list[Row]:
    """Read a JSON Lines file of questions; raise `InputError` with all of its mistakes."""
    return rows_of(_records(json_objects(file.path), file, form), file)


def read_objects(data: list[Any], file: SetFile, form: str | None = None) -> list[Row]:
    items = (
        (f"item {number}", one if isinstance(one, dict) else f"expected an object, not {type(one).__name__}")
        for number, one in enumerate(data, start=1)
    )
    return rows_of(_records(items, file, form), file)


def json_objects(path: Path) -> Iterator[tuple[str, dict[str, Any] | str]]:
    for number, line in lines_of_file(path):
        if line.strip():
            yield str(number), _object(line)


def _object(line: str) -> dict[str, Any] | str:
    try:
        value = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return f"expected a JSON object with a question ({what})"
    return value if isinstance(value, dict) else f"expected a JSON object, not {type(value).__name__}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in it")
    return found


def _records(items: Iterator[tuple[str, dict[str, Any] | str]], file: SetFile, form: str | None) -> Records:
    for place, value in items:
        if isinstance(value, str):
            yield QuestionRecord(place, {}, value)
            continue
        try:
            yield QuestionRecord(place, cells_of(value, naming_of(list(value), form, "")))
        except InputError as error:
            yield QuestionRecord(place, {}, "; ".join(one.removeprefix(": ") for one in error.findings))

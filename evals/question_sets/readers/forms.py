"""What reads the forms of question sets that are not our own YAML."""

from __future__ import annotations

from collections.abc import Callable

from rag_assay.evals.question_sets.readers.autorag import is_autorag, read_autorag
from rag_assay.evals.question_sets.readers.contract import Row, SetFile, whole_json
from rag_assay.evals.question_sets.readers.file_rows import file_rows
from rag_assay.evals.question_sets.readers.squad import read_squad
from rag_assay.evals.question_sets.readers.table import (
    parquet_rows,
    read_csv,
    read_jsonl,
    read_lines,
    read_objects,
    read_parquet_questions,
)
from rag_assay.warehouse.errors import InputError


def _of_parquet(file: SetFile, form: str | None) -> list[Row]:
    if form is None and is_autorag(parquet_rows(file.path).columns):
        return read_autorag(file)
    return read_parquet_questions(file, form)


def _of_json(file: SetFile, form: str | None) -> list[Row]:
    data = whole_json(file.path)
    if isinstance(data, list):
        return read_objects(data, file, form)
    if form is None and isinstance(data, dict) and "data" in data:
        return read_squad(data, file)
    what = "a SQuAD file (an object with `data`), or a list of questions"
    raise InputError(f"{file.path}: expected {what}, not {type(data).__name__}")


READERS: dict[str, Callable[[SetFile, str | None], list[Row]]] = {
    "lines": lambda file, _: read_lines(file),
    "jsonl": read_jsonl,
    "csv": read_csv,
    "json": _of_json,
    "parquet": _of_parquet,
    "arrow": lambda file, form: read_objects([row for _, row in file_rows(file.path)], file, form),
    "squad": lambda file, _: read_squad(whole_json(file.path), file),
    "autorag": lambda file, _: read_autorag(file),
}

"""An AutoRAG data set: `qa.parquet` with the questions, `corpus.parquet` beside it with the passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rag_assay.evals.question_sets.readers.contract import QuestionRecord, Row, SetFile
from rag_assay.evals.question_sets.readers.records import is_empty, rows_of
from rag_assay.evals.question_sets.readers.table import parquet_rows
from rag_assay.warehouse.errors import InputError

COLUMNS = frozenset({"qid", "query", "retrieval_gt"})
MOST_PASSAGES = 5_000_000


def is_autorag(columns: list[str]) -> bool:
    return set(columns) >= COLUMNS


def corpus_of(path: Path) -> Path:
    named = path.with_name(path.name.replace("qa", "corpus", 1))
    return named if named != path and named.is_file() else path.with_name("corpus.parquet")


def read_autorag(file: SetFile) -> list[Row]:
    """Read an AutoRAG data set: of a list of lists all outer ones are needed, any one of each inner list."""
    questions = parquet_rows(file.path)
    if missing := sorted(COLUMNS - set(questions.columns)):
        raise InputError(f"{file.path}: no column {missing[0]!r}: not the questions of an AutoRAG data set?")
    corpus = corpus_of(file.path)
    if not corpus.is_file():
        raise InputError(f"{corpus}: there is no such file; the questions of {file.path} name its passages")
    passages = parquet_rows(corpus, MOST_PASSAGES)
    if missing := sorted({"doc_id", "contents"} - set(passages.columns)):
        raise InputError(f"{corpus}: no column {missing[0]!r}: not the corpus of an AutoRAG data set?")
    contents = {str(key): text for key, text in passages.select("doc_id", "contents").iter_rows()}
    return rows_of(_records(questions.iter_rows(named=True), contents, corpus), file)


def _records(
    rows: Iterator[Mapping[str, Any]], contents: Mapping[str, Any], corpus: Path
) -> Iterator[QuestionRecord]:
    for number, row in enumerate(rows, start=1):
        cells = {"id": row["qid"], "question": row["query"], "ground_truth": row.get("generation_gt")}
        place = f"row {number}"
        try:
            named, needs = passages_of(row["retrieval_gt"])
        except ValueError as error:
            yield QuestionRecord(place, {}, str(error))
            continue
        unknown = [key for key in named if not isinstance(contents.get(key), str)]
        if unknown:
            yield QuestionRecord(place, {}, f"retrieval_gt: {corpus} has no passage {unknown[0]!r}")
            continue
        cells |= {"contexts": [contents[key] for key in named], "needs": needs}
        cells["context_ids"] = [f"{corpus.name}#{key}" for key in named]
        yield QuestionRecord(place, {name: value for name, value in cells.items() if not is_empty(value)})


def passages_of(value: Any) -> tuple[list[str], str]:
    """Return the ids that answer a question, and whether all or any are needed; ValueError: no such list.

    >>> passages_of([["a"], ["b", "c"]]), passages_of([["a", "b"]]), passages_of(["a"])
    ((['a', 'b'], 'all'), (['a', 'b'], 'any'), (['a'], 'all'))
    """
    groups = [one if isinstance(one, list) else [one] for one in value] if isinstance(value, list) else None
    if groups is None or not all(isinstance(key, str | int) for group in groups for key in group):
        raise ValueError("retrieval_gt: expected a list of passages' ids, or a list of such lists")
    groups = [[str(key) for key in group] for group in groups if group]
    if len(groups) == 1:
        return groups[0], "any" if len(groups[0]) > 1 else "all"
    return [group[0] for group in groups], "all"

"""The schemas of stored tables (column -> polars type), as `schemas.yaml` has them."""

from __future__ import annotations

from importlib.resources import files
from typing import TypeAlias

import polars as pl
import yaml

from rag_assay.warehouse.status import MIN_COVERAGE, RETRYABLE, Status

__all__ = ["MIN_COVERAGE", "RETRYABLE", "Status"]  # read with the tables that hold them

Schema: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]

UTC_TIME = pl.Datetime("us", "UTC")
_KINDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "text": pl.String,
    "int": pl.Int64,
    "float": pl.Float64,
    "float32": pl.Float32,
    "bool": pl.Boolean,
    "time": UTC_TIME,
}
_TABLES: dict[str, Schema] = {}
COLUMN_NOTES: dict[str, dict[str, str]] = {}
"""Table or struct -> column -> what it holds."""


def _read() -> None:
    text = (files("rag_assay.warehouse") / "schemas.yaml").read_text("utf-8")
    for table, columns in yaml.load(text, yaml.CSafeLoader).items():
        written = {column: said.partition("; ") for column, said in columns.items()}
        _TABLES[table] = {column: _kind(kind) for column, (kind, _, _) in written.items()}
        COLUMN_NOTES[table] = {column: note for column, (_, _, note) in written.items() if note}


def _kind(name: str) -> pl.DataType | type[pl.DataType]:
    if name.endswith("[]"):
        return pl.List(_kind(name.removesuffix("[]")))
    return _KINDS[name] if name in _KINDS else pl.Struct(_TABLES[name])


_read()


def notes_of(schema: Schema) -> dict[str, str]:
    """Return column -> what it holds, of a schema of the warehouse; of another schema nothing.

    >>> notes_of(CHUNKS)["page"]
    'of the file, from 1; NULL for what has no pages'
    """
    return next((COLUMN_NOTES[name] for name, table in _TABLES.items() if table is schema), {})


PAGES = _TABLES["PAGES"]
DOCUMENTS = _TABLES["DOCUMENTS"]
DROPPED = _TABLES["DROPPED"]
VERSIONS = _TABLES["VERSIONS"]
DUPLICATES = _TABLES["DUPLICATES"]
CHUNKS = _TABLES["CHUNKS"]
EMBEDDINGS = _TABLES["EMBEDDINGS"]
ENRICHMENTS = _TABLES["ENRICHMENTS"]
QUESTIONS = _TABLES["QUESTIONS"]
HITS = _TABLES["HITS"]
RANKED = _TABLES["RANKED"]
TRACES = _TABLES["TRACES"]
LOSSES = _TABLES["LOSSES"]
NOTES = _TABLES["NOTES"]
ANSWERS = _TABLES["ANSWERS"]
SCORES = _TABLES["SCORES"]
JUDGEMENTS = _TABLES["JUDGEMENTS"]
JUDGE_CARDS = _TABLES["JUDGE_CARDS"]
JUDGE_TRIALS = _TABLES["JUDGE_TRIALS"]
LEADERBOARD = _TABLES["LEADERBOARD"]
CALLS = _TABLES["CALLS"]
CRAWLS = _TABLES["CRAWLS"]
SEARCHES = _TABLES["SEARCHES"]
SEARCH_VALUES = _TABLES["SEARCH_VALUES"]
VERDICTS = _TABLES["VERDICTS"]
HUMAN_SCORES = _TABLES["HUMAN_SCORES"]
ANNOTATIONS = _TABLES["ANNOTATIONS"]
REJECTED_SCORES = _TABLES["REJECTED_SCORES"]
IMPORTED = _TABLES["IMPORTED"]
AGREEMENT = _TABLES["AGREEMENT"]
HUMAN_ESTIMATES = _TABLES["HUMAN_ESTIMATES"]
HISTORY = _TABLES["HISTORY"]
CONVERSATIONS = _TABLES["CONVERSATIONS"]
CHAT_FEEDBACK = _TABLES["CHAT_FEEDBACK"]
CHAT_VOTES = _TABLES["CHAT_VOTES"]

"""One side of a comparison: a result with its documents, questions, passages, answers and scores of then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from rag_assay.evals.reporting.changes.documents import DocumentSnapshot, snapshot
from rag_assay.evals.reporting.changes.entry import HistoryEntry
from rag_assay.evals.reporting.changes.parts import questions_of
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import QUESTIONS, Schema, Status

HITS: Schema = {
    "ranking": pl.String,
    "question_id": pl.String,
    "rank": pl.Int64,
    "doc_id": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
}
ANSWERS: Schema = {
    "cell": pl.String,
    "replicate": pl.Int64,
    "question_id": pl.String,
    "status": pl.String,
    "answer": pl.String,
}
SCORES: Schema = {"cell": pl.String, "metric": pl.String, "question_id": pl.String, "value": pl.Float64}


@dataclass(frozen=True, eq=False)
class Side:
    """What is known of a result; names of cells and rankings are without the study's.

    hits: `HITS`; answers: `ANSWERS`; scores: `SCORES`, means over the replicates
    gone: what of it is no longer in the home, a phrase each
    """

    entry: HistoryEntry
    documents: DocumentSnapshot
    questions: pl.DataFrame
    hits: pl.DataFrame
    answers: pl.DataFrame
    scores: pl.DataFrame
    gone: tuple[str, ...]

    @property
    def cells(self) -> list[str]:
        """The names of its cells, in their order."""
        return list(dict.fromkeys(cell_of(key)[0] for key in self.entry.artifacts.get("scores", {})))


def side_of(entry: HistoryEntry, store: ArtifactStore) -> Side:
    """Open a result of then."""
    documents = snapshot(entry, store)
    questions = questions_of(entry, store)
    hits, no_hits = _read("rankings", "hits", entry, store, HITS)
    answers, no_answers = _read("answers", "answers", entry, store, ANSWERS)
    scores, no_scores = _read("scores", "scores", entry, store, {**SCORES, "status": pl.String})
    gone = [f"the documents of {name}" for name in documents.gone]
    gone += ["the questions"] if questions is None else []
    for what, names in (("rankings", no_hits), ("answers", no_answers), ("scores", no_scores)):
        gone += (
            [f"the {what} of {names[0]}" + (f" and {len(names) - 1} others" if names[1:] else "")]
            if names
            else []
        )
    good = scores.filter(pl.col("status") == Status.OK).drop_nulls("value")
    means = good.group_by("cell", "metric", "question_id").agg(pl.col("value").mean())
    empty = pl.DataFrame(schema=QUESTIONS)
    return Side(
        entry, documents, empty if questions is None else questions, hits, answers, means, tuple(gone)
    )


def cell_of(key: str) -> tuple[str, int]:
    """Part a key of answers into the cell without its study, and the replicate.

    >>> cell_of("s.t.e.r.g.2"), cell_of("s.t.e.r.g")
    (('t.e.r.g', 2), ('t.e.r.g', 1))
    """
    parts = key.split(".")
    return ".".join(parts[1:5]), int(parts[5]) if len(parts) > 5 else 1


def _read(
    stage: str, file: str, entry: HistoryEntry, store: ArtifactStore, schema: Schema
) -> tuple[pl.DataFrame, list[str]]:
    """Read one file of all artifacts of a stage, with the names of those that are gone."""
    frames, gone = [pl.DataFrame(schema=schema)], []
    for key, identity in entry.artifacts.get(stage, {}).items():
        found = _one(stage, file, identity, store, [name for name in schema if name not in _OURS])
        if found is None:
            gone.append(key)
            continue
        cell, replicate = cell_of(key)
        ours = {"cell": cell, "replicate": replicate, "ranking": ".".join(key.split(".")[1:])}
        named = {name: pl.lit(value) for name, value in ours.items() if name in schema}
        frames.append(found.with_columns(**named).select(list(schema)).cast(schema))  # type: ignore[arg-type]
    return pl.concat(frames), gone


_OURS = frozenset({"cell", "replicate", "ranking"})


def _one(
    stage: str, file: str, identity: str, store: ArtifactStore, columns: Iterable[str]
) -> pl.DataFrame | None:
    artifact = store.find(stage, identity)
    if artifact is None:
        return None
    try:
        return read_parquet(store.folder(stage, identity) / f"{file}.parquet", list(columns))
    except CorruptFileError:
        return None

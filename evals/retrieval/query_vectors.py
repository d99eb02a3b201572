"""Embeds questions, and stores the vectors with the time that each took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import numpy as np
import polars as pl

from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.evals.retrieval.clock import Clock, Spent
from rag_assay.evals.retrieval.ranking import Vector
from rag_assay.warehouse.errors import CorruptFileError, InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.schemas import Schema

KEPT: Schema = {
    "question": pl.String,
    "vector": pl.List(pl.Float32),
    "seconds": pl.Float64,  # NULL: not timed
    "waited": pl.Float64,  # of these, for a processor
}
SAMPLE = 50  # questions whose embedding is timed
BATCH = 64  # of those that are not, so many are embedded at once


@dataclass(frozen=True)
class QueryVector:
    """A question's unit vector (None: the embedder refuses it) and what embedding it alone takes."""

    vector: Vector | None
    spent: Spent = field(default_factory=Spent)
    refused: str | None = None


@dataclass
class _Known:
    """Vectors and times by question; `refused`: why a question has no vector."""

    vectors: dict[str, Vector] = field(default_factory=dict)
    times: dict[str, Spent] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def update(self, other: _Known) -> None:
        self.vectors.update(other.vectors)
        self.times.update(other.times)
        self.refused.update(other.refused)

    def of(self, text: str, typical: Spent) -> QueryVector:
        if text in self.refused:
            return QueryVector(None, refused=self.refused[text])
        return QueryVector(self.vectors[text], self.times.get(text, typical))


def embed_queries(
    questions: list[str],
    embedder: CachedEmbedder,
    progress: Callable[[int, int], None] | None = None,
    clock: Clock | None = None,
) -> dict[str, QueryVector]:
    """Embed each distinct question and time SAMPLE of them singly; busy times are taken again."""
    clock = clock or Clock()
    path = embedder.home.cache("queries") / embedder.recipe.query_revision() / "questions.parquet"
    known = _Known()
    for file in (path, *path.parent.glob("batch-*.parquet")):
        known.update(_read(file))
    wanted = sorted(set(questions))
    sample = set(sorted(wanted, key=digest)[:SAMPLE])
    timed = {text for text, spent in known.times.items() if text in known.vectors and not spent.busy}
    alone = [text for text in wanted if text in sample and text not in timed]
    others = [text for text in wanted if text not in sample and text not in known.vectors]
    if alone or others:
        embedder.embedder.embed(["warm up"])  # the first call pays for set-up that no question should
        for number, text in enumerate(alone, 1):
            _time(text, embedder, clock, known)
            if progress:
                progress(number, len(alone) + len(others))
        _write(known, path)
        for at in range(0, len(others), BATCH):
            batch = _Known()
            _embed(others[at : at + BATCH], embedder, batch)
            _write(batch, path.with_name(f"batch-{digest(others[at : at + BATCH])}.parquet"))
            known.update(batch)
            if progress:
                progress(len(alone) + min(at + BATCH, len(others)), len(alone) + len(others))
        batches = list(path.parent.glob("batch-*.parquet"))
        for file in batches:  # those of a killed run, and of another that is under way
            known.update(_read(file))
        _write(known, path)
        for file in batches:
            file.unlink(missing_ok=True)
    measured = sorted(
        (known.times[text] for text in sample if text in known.times), key=attrgetter("seconds")
    )
    typical = measured[(len(measured) - 1) // 2] if measured else Spent()
    return {text: known.of(text, typical) for text in wanted}


def embed_query(question: str, embedder: CachedEmbedder, clock: Clock) -> QueryVector:
    """Embed one question as it comes, and time it; nothing of it is kept."""
    known, begin = _Known(), clock.now()
    _embed([question], embedder, known)
    return known.of(question, clock.since(begin))


def _time(text: str, embedder: CachedEmbedder, clock: Clock, known: _Known) -> None:
    begin = clock.now()
    if not _embed([text], embedder, known):
        return
    spent = clock.since(begin)
    if text not in known.times or spent.seconds < known.times[text].seconds:
        known.times[text] = spent


def _embed(texts: list[str], embedder: CachedEmbedder, known: _Known) -> bool:
    """Add the vectors of questions; return whether all have one: one that is too long fails alone."""
    try:
        vectors = embedder.embedder.embed([embedder.query_prefix + text for text in texts])
    except InputError as error:
        if len(texts) > 1:
            return all(_embed([text], embedder, known) for text in texts)
        known.refused[texts[0]] = str(error)
        return False
    for text, vector in zip(texts, vectors, strict=True):
        known.vectors.setdefault(text, vector)
    return True


def _read(path: Path) -> _Known:
    known = _Known()
    try:
        rows = read_parquet(path, list(KEPT)) if path.exists() else frame([], KEPT)
    except CorruptFileError:
        return known
    for text, vector, seconds, waited in rows.iter_rows():
        known.vectors[text] = np.array(vector, np.float32)
        if seconds is not None:
            known.times[text] = Spent(seconds, waited)
    return known


def _write(known: _Known, path: Path) -> None:
    untimed = {"seconds": None, "waited": None}
    rows: list[dict[str, object]] = []
    for text, vector in sorted(known.vectors.items()):
        times = vars(known.times[text]) if text in known.times else untimed
        rows.append({"question": text, "vector": vector.tolist(), **times})
    write_parquet(frame(rows, KEPT), path)

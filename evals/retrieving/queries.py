"""Questions as vectors, each with what its embedding took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from assets.embedding.cached import CachedEmbedder
from evals.retrieving.clock import Clock, Spent
from evals.retrieving.contract import Vector
from warehouse.errors import CorruptFileError, InputError
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.schemas import Schema

KEPT: Schema = {
    "question": pl.String,
    "vector": pl.List(pl.Float32),
    "seconds": pl.Float64,
    "waited": pl.Float64,  # of these, for a processor
}


@dataclass(frozen=True)
class QueryVector:
    """A question's unit vector and what embedding it alone took.

    vector: None where the embedder refuses the question
    refused: why, then
    """

    vector: Vector | None
    spent: Spent = field(default_factory=Spent)
    refused: str | None = None


def embed_queries(
    questions: list[str],
    embedder: CachedEmbedder,
    progress: Callable[[int, int], None] | None = None,
    clock: Clock | None = None,
) -> dict[str, QueryVector]:
    """Embed each distinct question by itself, as a live system would; keep vector and time for the next run.

    One at a time on purpose: a retriever's latency includes its query embedding, which a batch would hide.
    A time that was measured while other work held the processors is kept until the next call, which measures
    it again.
    """
    clock = clock or Clock()
    path = embedder.home.cache("queries") / embedder.recipe.query_revision() / "questions.parquet"
    kept = _read(path)
    wanted = sorted(set(questions))
    asked = [text for text in wanted if text not in kept or kept[text].spent.busy]
    if not asked:
        return {text: kept[text] for text in wanted}
    embedder.embedder.embed(["warm up"])  # the first call pays for set-up that no question should
    refused: dict[str, QueryVector] = {}
    for number, text in enumerate(asked, 1):
        found = _embedded(text, embedder, clock)
        if found.vector is None:
            refused[text] = found
        elif text not in kept or found.spent.seconds < kept[text].spent.seconds:
            kept[text] = found
        if progress:
            progress(number, len(asked))
    _write(kept, path)
    return {text: refused.get(text) or kept[text] for text in wanted}


def _embedded(text: str, embedder: CachedEmbedder, clock: Clock) -> QueryVector:
    begin = clock.now()
    try:
        vector = embedder.embedder.embed([embedder.query_prefix + text])[0]
    except InputError as error:  # longer than the model reads: this question fails, the others do not
        return QueryVector(None, refused=str(error))
    return QueryVector(vector, clock.since(begin))


def _read(path: Path) -> dict[str, QueryVector]:
    """Return what earlier calls kept, by question; a file that is torn or of another form keeps nothing."""
    if not path.exists():
        return {}
    try:
        rows = read_parquet(path, list(KEPT))
    except CorruptFileError:
        return {}
    return {
        text: QueryVector(np.array(vector, np.float32), Spent(seconds, waited))
        for text, vector, seconds, waited in rows.iter_rows()
    }


def _write(kept: dict[str, QueryVector], path: Path) -> None:
    rows: list[dict[str, object]] = [
        {
            "question": text,
            "vector": found.vector.tolist(),
            "seconds": found.spent.seconds,
            "waited": found.spent.waited,
        }
        for text, found in sorted(kept.items())
        if found.vector is not None
    ]
    write_parquet(frame(rows, KEPT), path)

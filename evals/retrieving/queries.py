"""Questions as vectors, each with the seconds that its embedding took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from assets.embedding.cached import CachedEmbedder
from evals.retrieving.contract import Vector
from warehouse.identity import digest
from warehouse.parquet import write_parquet


@dataclass(frozen=True)
class QueryVector:
    """A question's unit vector and the wall seconds that embedding it alone took."""

    vector: Vector
    seconds: float


def embed_queries(
    questions: list[str], embedder: CachedEmbedder, progress: Callable[[int, int], None] | None = None
) -> dict[str, QueryVector]:
    """Embed each distinct question by itself, as a live system would; keep vector and time for the next run.

    One at a time on purpose: a retriever's latency includes its query embedding, which a batch would hide.
    """
    texts = sorted(set(questions))
    path = embedder.home.cache("queries") / embedder.recipe.query_revision() / f"{digest(texts)}.parquet"
    if path.exists():
        try:
            rows = pl.read_parquet(path)
            return {
                text: QueryVector(np.array(vector, np.float32), seconds)
                for text, vector, seconds in rows.select("question", "vector", "seconds").iter_rows()
            }
        except (pl.exceptions.PolarsError, OSError):
            path.unlink()  # torn: only costs embedding again
    found: dict[str, QueryVector] = {}
    if texts:
        embedder.embedder.embed(["warm up"])  # the first call pays for set-up that no question should
    for number, text in enumerate(texts, 1):
        begin = time.perf_counter()
        vector = embedder.embedder.embed([embedder.query_prefix + text])[0]
        found[text] = QueryVector(vector, time.perf_counter() - begin)
        if progress:
            progress(number, len(texts))
    write_parquet(
        pl.DataFrame(
            {
                "question": list(found),
                "vector": [q.vector.tolist() for q in found.values()],
                "seconds": [q.seconds for q in found.values()],
            },
            schema={"question": pl.String, "vector": pl.List(pl.Float32), "seconds": pl.Float64},
        ),
        path,
    )
    return found

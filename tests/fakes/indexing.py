"""Small indexes from texts, with made-up vectors that agree for equal texts: no model is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.assets.indexing import index_table
from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.assets.indexing.index_rows import BATCH, record_batch
from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.evals.retrieval.context import RetrievalContext
from rag_assay.evals.retrieval.contract import QueryTransform, Retriever, Step
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.query import Query
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import CHUNKS

DIMENSIONS = 24


class HeldRows:
    """Rows in memory: chunks (schemas.CHUNKS) and vectors, shape (chunks, dimensions)."""

    def __init__(self, chunks: pl.DataFrame, vectors: npt.NDArray[np.float32]) -> None:
        if len(chunks) != len(vectors):
            raise ValueError(f"{len(chunks)} chunks but {len(vectors)} vectors")
        self._chunks, self._vectors = chunks, vectors
        self.count, self.dimensions = len(chunks), int(vectors.shape[1])

    def batches(self) -> Iterator[Any]:
        for start in range(0, self.count, BATCH):
            yield record_batch(self._chunks[start : start + BATCH], self._vectors[start : start + BATCH])

    def vectors(self) -> Iterator[npt.NDArray[np.float32]]:
        yield self._vectors

    def ids(self) -> pl.Series:
        return self._chunks["chunk_id"]


@cache
def _direction(word: str) -> npt.NDArray[np.float64]:
    return np.random.default_rng(list(word.encode())).normal(size=DIMENSIONS)


def vector_of(text: str) -> npt.NDArray[np.float32]:
    """Return the unit vector of a text: each of its words points in a direction of its own."""
    total = np.full(DIMENSIONS, 1e-3)
    for word in plain_tokens(text):
        total += _direction(word)
    return (total / np.linalg.norm(total)).astype(np.float32)


def query(text: str) -> Query:
    """Return a question as a retriever is asked it."""
    return Query(text, vector_of(text))


def build_index(
    folder: Path,
    texts: Sequence[str],
    vectors: Sequence[npt.NDArray[np.float32]] | None = None,
    columns: Mapping[str, Sequence[object]] | None = None,
    recipe: IndexRecipe | None = None,
) -> OpenIndex:
    """Write and open an index whose chunk ids are c000, c001, … in the order of the texts.

    columns: of `schemas.CHUNKS` -> their values, in the order of the texts
    """
    rows: list[dict[str, object]] = [
        {
            "chunk_id": f"c{number:03}",
            "doc_id": f"d{number // 2:03}",
            "doc_version": "v",
            "ordinal": number % 2,
            "start": 1000 * (number % 2),
            "end": 1000 * (number % 2) + len(text),
            "text": text,
            "gap": "",
            "context_start": 1000 * (number % 2),
            "context_end": 1000 * (number % 2) + len(text),
            "prefix": "",
            "n_tokens": len(text.split()),
            **{name: values[number] for name, values in (columns or {}).items()},
        }
        for number, text in enumerate(texts)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    found = [vector_of(text) for text in texts] if vectors is None else list(vectors)
    matrix = np.array(found, np.float32).reshape(len(texts), -1 if texts else DIMENSIONS)
    index_table.build(folder, HeldRows(frame(rows, CHUNKS), matrix), recipe=recipe)
    return OpenIndex(folder)


NO_CONTEXT = RetrievalContext()


def searched(
    retriever: Retriever, query: Query, index: OpenIndex, context: RetrievalContext = NO_CONTEXT
) -> Ranking:
    """Open a retriever on an index, and ask it one question."""
    return retriever.open(index, context).search(query)


def applied(
    step: Step, ranking: Ranking, query: Query, index: OpenIndex, context: RetrievalContext = NO_CONTEXT
) -> Ranking:
    """Open a step on an index, and let it work on one ranking."""
    return step.open(index, context).apply(ranking, query)


def read_by(
    transform: QueryTransform, query: Query, index: OpenIndex, context: RetrievalContext = NO_CONTEXT
) -> list[Query]:
    """Open a query transform on an index, and let it read one question."""
    return transform.open(index, context).read(query)

"""One index: a LanceDB table (vectors and full text) and a lexical index, written once and then only read.

The folder of an index is named by its identity, so a finished table is never changed: another corpus version
is another folder. The table carries the tag `TAG`, set last; readers open that tag and nothing else, so a
half-written table is never read.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from assets.embedding.embedder import Matrix
from assets.indexing.lexical import lexical_of, write_lexical
from warehouse.errors import CorruptFileError

if TYPE_CHECKING:
    from lancedb.table import Table

TAG = "whole"
TABLE = "chunks"
COLUMNS = (
    *("chunk_id", "doc_id", "ordinal", "start", "end", "text", "gap", "context_start", "context_end"),
    *("n_tokens", "n_chunks", "title", "url", "published_at", "language", "keywords", "tags"),
)


@dataclass(frozen=True)
class IndexFacts:
    """What was built: the number of chunks, and of the dimensions of their vectors."""

    chunks: int
    dimensions: int


def build(folder: Path, chunks: pl.DataFrame, vectors: Matrix) -> IndexFacts:
    """Write the index of ``chunks`` (schemas.CHUNKS) and their vectors, shape (chunks, d), in that order."""
    import lancedb
    from lancedb.index import FTS

    if len(chunks) != len(vectors):
        raise ValueError(f"{len(chunks)} chunks but {len(vectors)} vectors")
    shutil.rmtree(folder / "lancedb", ignore_errors=True)  # what an earlier, killed build left
    order = np.argsort(np.array(chunks["chunk_id"].to_list()))
    rows = chunks[order].select(COLUMNS)
    data = rows.with_columns(
        pl.Series("vector", vectors[order], dtype=pl.Array(pl.Float32, vectors.shape[1]))
    )
    database = lancedb.connect(str(folder / "lancedb"))
    table = database.create_table(TABLE, data.to_arrow())
    table.create_index("text", config=FTS(with_position=False))
    write_lexical(lexical_of(rows["text"]), folder / "lexical")
    table.tags.create(TAG, table.version)
    return IndexFacts(len(rows), int(vectors.shape[1]))


def open_table(folder: Path) -> Table:
    """Open the finished table of an index for reading."""
    import lancedb

    try:
        table = lancedb.connect(str(folder / "lancedb")).open_table(TABLE)
        table.checkout(TAG)
    except (ValueError, RuntimeError, OSError) as error:
        raise CorruptFileError(
            f"{folder}: the index is damaged ({error}). Delete the folder; `assay run` makes it again."
        ) from error
    return table

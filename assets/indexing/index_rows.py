"""Streams the rows of an index from Parquet to Arrow batches in the table's schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet

from rag_assay.assets.chunking.document_chunks import naming_damage
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import CHUNKS

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import Matrix

_ISO = re.compile(
    r"(?P<year>\d{4})"
    r"(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?|(?P<month2>\d{2})(?P<day2>\d{2}))?"
    r"(?:[T ](?P<hour>\d{2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,]\d+)?)?)?"
    r"\s*(?:Z|z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?"
)


def moment(text: str | None) -> datetime | None:
    """Return the moment that an ISO 8601 date or time names. A partial date is its first day; the time zone
    is left out, not converted.

    >>> moment("2019-05"), moment("2019-05-02T00:30:00+02:00"), moment("soon")
    (datetime.datetime(2019, 5, 1, 0, 0), datetime.datetime(2019, 5, 2, 0, 30), None)
    """
    found = _ISO.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    part = found.groupdict()
    numbers = [part["year"], part["month"] or part["month2"] or "1", part["day"] or part["day2"] or "1"]
    try:
        return datetime(*map(int, [*numbers, part["hour"] or 0, part["minute"] or 0, part["second"] or 0]))  # type: ignore[arg-type]  # noqa: DTZ001 -- the zone is left out on purpose
    except ValueError:  # the 31st of June
        return None


QUESTIONS = "questions.parquet"  # further vectors that point at chunks: chunk_id and vector
COLUMNS = (
    *("chunk_id", "doc_id", "ordinal", "start", "end", "text", "gap", "context_start", "context_end"),
    *("n_tokens", "n_chunks", "title", "url", "published_at", "language", "keywords", "tags"),
)
BATCH = 4_096


def schema_of(dimensions: int) -> Any:
    """Return the Arrow schema of a table: COLUMNS, published_on, row_hash and vector."""
    arrow = {
        pl.String: pa.string(),
        pl.Int64: pa.int64(),
        pl.Float64: pa.float64(),
        pl.List(pl.String): pa.list_(pa.string()),
    }
    fields = [pa.field(name, arrow[CHUNKS[name]]) for name in COLUMNS]
    return pa.schema(
        [
            *fields,
            pa.field("published_on", pa.date32()),
            pa.field("row_hash", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), dimensions)),
        ]
    )


class IndexRows(Protocol):
    """Chunks with their vectors, to be gone through any number of times in one order."""

    @property
    def count(self) -> int:
        """Number of rows."""

    @property
    def dimensions(self) -> int:
        """Numbers in a vector."""

    def batches(self) -> Iterator[Any]:
        """Yield record batches of `schema_of`."""

    def vectors(self) -> Iterator[Matrix]:
        """Yield the vectors alone, each part of shape (n, dimensions)."""

    def ids(self) -> pl.Series:
        """Return the chunk id of every row."""


class StoredRows:
    """Rows in two Parquet files of the same chunks in the same order, whatever their row groups."""

    def __init__(self, chunks: Path, embeddings: Path) -> None:
        self._chunks, self._embeddings = chunks, embeddings
        self.count, other = _count(chunks), _count(embeddings)
        if self.count != other:
            raise AssayError(f"{chunks} holds {self.count} chunks, but {embeddings} {other}. {_AGAIN}")

    @cached_property
    def dimensions(self) -> int:
        first = next(self.vectors(), None)
        return 1 if first is None else int(first.shape[1])

    def batches(self) -> Iterator[Any]:
        both = zip(
            _parts(self._chunks, list(COLUMNS)), _parts(self._embeddings, ["chunk_id", "vector"]), strict=True
        )
        for rows, embedded in both:
            chunks = pl.from_arrow(rows)
            assert isinstance(chunks, pl.DataFrame)  # noqa: S101 -- a table, not a column
            if embedded["chunk_id"].to_pylist() != chunks["chunk_id"].to_list():
                raise AssayError(
                    f"{self._embeddings} does not hold the chunks of {self._chunks} in their order. {_AGAIN}"
                )
            yield record_batch(chunks, _matrix(embedded["vector"]))

    def vectors(self) -> Iterator[Matrix]:
        for part in _parts(self._embeddings, ["vector"]):
            yield _matrix(part["vector"])

    def ids(self) -> pl.Series:
        return read_parquet(self._chunks, ["chunk_id"])["chunk_id"]


_AGAIN = "Delete the folder of the embeddings; `assay run STUDY` makes them again."


def schema_digest(dimensions: int) -> str:
    return digest([[field.name, str(field.type)] for field in schema_of(dimensions)])


def _count(path: Path) -> int:
    with naming_damage(path):
        return int(pyarrow.parquet.read_metadata(path).num_rows)


def _parts(path: Path, columns: list[str]) -> Iterator[Any]:
    """Yield tables of exactly BATCH rows (the last one fewer), across the row groups of a file."""
    held: Any = None
    with naming_damage(path), pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=BATCH, columns=columns):
            part = pa.Table.from_batches([batch]).select(columns)
            held = part if held is None else pa.concat_tables([held, part])
            while len(held) >= BATCH:
                yield held.slice(0, BATCH)
                held = held.slice(BATCH)
    if held is not None and len(held):
        yield held


def _matrix(column: Any) -> Matrix:
    """Return a column of equally long lists of numbers as float32, shape (rows, dimensions)."""
    joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat = joined.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    matrix: Matrix = flat.reshape(len(joined), -1)
    return matrix


def record_batch(chunks: pl.DataFrame, vectors: Matrix) -> Any:
    schema = schema_of(vectors.shape[1])
    days = [found.date() if (found := moment(text)) else None for text in chunks["published_at"]]
    vector = np.ascontiguousarray(vectors, np.float32)
    arrays = [
        *(chunks[name].to_arrow().cast(schema.field(name).type) for name in COLUMNS),
        pa.array(days, pa.date32()),
        pa.array(_hashes(chunks, vector), pa.string()),
        pa.FixedSizeListArray.from_arrays(pa.array(vector.reshape(-1)), vector.shape[1]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _hashes(chunks: pl.DataFrame, vectors: Matrix) -> list[str]:
    rows = chunks.select(pl.struct(COLUMNS).struct.json_encode()).to_series()
    return [
        blake2b(row.encode() + vector.tobytes(), digest_size=10).hexdigest()
        for row, vector in zip(rows, vectors, strict=True)
    ]

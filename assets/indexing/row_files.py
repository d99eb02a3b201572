"""The rows of an index in the order of their chunk ids.

`chunks.arrow`: every column but the vector, uncompressed Arrow IPC in batches of BATCH rows. `vectors.npy`:
float32, shape (chunks, dimensions).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rag_assay.assets.indexing.index_rows import IndexRows, schema_of
from rag_assay.assets.indexing.lexical import write_npy_head
from rag_assay.warehouse.atomic_write import atomic_write

ROWS = "rows"
CHUNKS = "chunks.arrow"
VECTORS = "vectors.npy"
BATCH = 4_096  # rows of a record batch
SPAN = 16 * BATCH
"""Rows that are brought into their order in memory; more are first dealt out to files of so many."""
_MOST_FILES = 64  # open at once: beyond so many spans, spans are longer

Positions: TypeAlias = "npt.NDArray[np.int64]"


class OrderedRows:
    """Rows that the first pass writes to ``folder`` in the order of their chunk ids."""

    def __init__(self, rows: IndexRows, folder: Path, span: int = SPAN) -> None:
        self._rows, self.folder = rows, folder
        spans = -(-rows.count // _MOST_FILES)
        self._span = max(span, -(-spans // BATCH) * BATCH)
        self._written = False
        self.count, self.dimensions = rows.count, rows.dimensions

    def batches(self) -> Iterator[Any]:
        if self._written:
            yield from self._rows.batches()
            return
        positions = _positions(self._rows.ids())
        begin = 0
        schema = schema_of(self.dimensions)
        with (
            _vector_file(self.folder / VECTORS, (self.count, self.dimensions)) as put_vectors,
            _Spans(self.folder, self._span, schema.remove(schema.get_field_index("vector"))) as spans,
        ):
            for batch in self._rows.batches():
                part = positions[begin : begin + len(batch)]
                put_vectors(part, batch["vector"])
                spans.put(part, batch.drop_columns(["vector"]))
                begin += len(batch)
                yield batch
            spans.write(self.folder / CHUNKS)
        self._written = True

    def write(self) -> None:
        if not self._written:
            for _ in self.batches():
                pass


def _positions(ids: pl.Series) -> Positions:
    """Return the place of each row in the order of the chunk ids.

    >>> _positions(pl.Series(["c", "a", "b"])).tolist()
    [2, 0, 1]
    """
    order = ids.arg_sort().to_numpy()
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


@contextmanager
def _vector_file(path: Path, shape: tuple[int, int]) -> Iterator[Callable[[Positions, Any], None]]:
    """Yield a function that writes rows of a .npy file; it is not mapped, so its pages are not ours."""
    width = 4 * shape[1]

    def put(positions: Positions, vectors: Any) -> None:
        flat = vectors.flatten().to_numpy(zero_copy_only=False)
        data = np.ascontiguousarray(flat, np.float32).tobytes()
        for number, position in enumerate(positions.tolist()):
            os.pwrite(file.fileno(), data[number * width : (number + 1) * width], begin + position * width)

    with atomic_write(path) as temporary, temporary.open("wb") as file:
        write_npy_head(file, np.float32, shape)
        file.flush()
        begin = file.tell()
        os.truncate(temporary, begin + shape[0] * width)
        yield put


class _Spans(ExitStack):
    def __init__(self, folder: Path, span: int, schema: Any) -> None:
        super().__init__()
        self._folder, self._span = folder, span
        self._schema = schema.append(pa.field("position", pa.int64()))
        self._files: dict[int, tuple[Path, Any]] = {}

    def __enter__(self) -> _Spans:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._place = Path(self.enter_context(TemporaryDirectory(prefix=".spans-", dir=self._folder)))
        return self

    def put(self, positions: Positions, batch: Any) -> None:
        batch = batch.append_column("position", pa.array(positions))
        spans = positions // self._span
        order = np.argsort(spans, kind="stable")
        numbers, begins = np.unique(spans[order], return_index=True)
        for number, chosen in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            if number not in self._files:
                path = self._place / str(number)
                file = self.enter_context(pa.ipc.new_stream(str(path), self._schema))
                self._files[number] = (path, file)
            self._files[number][1].write_batch(batch.take(pa.array(chosen)))

    def write(self, path: Path) -> None:
        schema = self._schema.remove(len(self._schema) - 1)
        with atomic_write(path) as temporary, pa.ipc.new_file(str(temporary), schema) as file:
            for _, (place, stream) in sorted(self._files.items()):
                stream.close()
                with pa.OSFile(str(place)) as source, pa.ipc.open_stream(source) as reader:
                    rows = reader.read_all()
                rows = rows.take(pa.array(np.argsort(rows["position"].to_numpy()))).drop_columns(["position"])
                for part in rows.combine_chunks().to_batches(max_chunksize=BATCH):
                    file.write_batch(part)
                place.unlink()


def read_batches(folder: Path, columns: Sequence[str]) -> Iterator[Any]:
    with pa.OSFile(str(folder / CHUNKS)) as file:
        schema = pa.ipc.open_file(file).schema
        places = [schema.get_field_index(name) for name in columns]
        reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=places))
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def read_columns(folder: Path, columns: Sequence[str]) -> pl.DataFrame:
    # Taken, for a copy: a batch that was read holds all of its columns in memory while one of them is held.
    parts = [
        batch.select(columns).take(pa.array(np.arange(len(batch)))) for batch in read_batches(folder, columns)
    ]
    schema = pa.schema([schema_of(1).field(name) for name in columns])
    return pl.DataFrame(pl.from_arrow(pa.Table.from_batches(parts, schema)))


def read_texts(folder: Path, column: str) -> Iterator[str]:
    for part in read_batches(folder, [column]):
        for text in part[column].to_pylist():
            yield text or ""


def read_rows(folder: Path, positions: Positions) -> Iterator[Any]:
    vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
    schema = schema_of(vectors.shape[1])
    with pa.OSFile(str(folder / CHUNKS)) as file:
        reader = pa.ipc.open_file(file)
        for number in np.unique(positions // BATCH).tolist():
            chosen = positions[positions // BATCH == number]
            batch = reader.get_batch(number).take(pa.array(chosen % BATCH))
            flat = pa.array(np.ascontiguousarray(vectors[chosen]).reshape(-1))
            vector = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            yield pa.RecordBatch.from_arrays([*batch.columns, vector], schema=schema)

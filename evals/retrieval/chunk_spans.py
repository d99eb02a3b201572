"""The document and span of each chunk of an index."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assay.assets.indexing.row_files import BATCH, CHUNKS, read_columns
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.spans import Span

if TYPE_CHECKING:
    import polars as pl

_DIGESTS = "row_hash"  # of rows, for the next build


class MappedChunks:
    """Chunks in a memory-mapped file (`assets.indexing.row_files`); raises CorruptFileError."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self._reading = folder, Lock()  # a reader of Arrow files is not safe for threads
        try:
            self._file = pa.ipc.open_file(pa.memory_map(str(folder / CHUNKS)))
            batches = self._file.num_record_batches
            held = BATCH * (batches - 1) + len(self._file.get_batch(batches - 1)) if batches else 0
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(str(error)) from error
        if held != count:
            raise self._damaged(f"it holds {held:,} chunks instead of {count:,}")

    def _damaged(self, what: str) -> CorruptFileError:
        return CorruptFileError(
            f"{self._folder / CHUNKS}: the chunks of the index are damaged ({what}). Delete the folder of "
            "the index; `assay run` makes it again."
        )

    @property
    def names(self) -> list[str]:
        return [name for name in self._file.schema.names if name != _DIGESTS]

    def column(self, name: str) -> pl.Series:
        return read_columns(self._folder, [name])[name]

    def at(self, rows: Sequence[int] | Rows, *names: str) -> list[tuple[Any, ...]]:
        batches: dict[int, list[Any]] = {}
        places = [self._file.schema.get_field_index(name) for name in names]
        found = []
        for row in map(int, rows):
            number, inside = divmod(row, BATCH)
            if number not in batches:
                with self._reading:
                    batch = self._file.get_batch(number)
                batches[number] = [batch.column(place) for place in places]
            found.append(tuple(column[inside].as_py() for column in batches[number]))
        return found


class SortedKeyIndex(Mapping[str, int]):
    """Key -> its place among sorted keys, found by bisection: 16 bytes a key beside its own letters.

    >>> import polars as pl
    >>> places = SortedKeyIndex(pl.Series(["ant", "bee", "fly"]))
    >>> places["bee"], "cow" in places, places.get("zebra")
    (1, False, None)
    """

    def __init__(self, keys: pl.Series) -> None:
        self._keys = keys

    def __getitem__(self, key: str) -> int:
        place = bisect_left(self._keys, key)
        if place == len(self._keys) or self._keys[place] != key:
            raise KeyError(key)
        return place

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


Rows: TypeAlias = "npt.NDArray[np.int64]"


class DocumentRows(Mapping[str, Rows]):
    """Document id -> its chunks, in the order of its text."""

    def __init__(self, docs: pl.Series, ordinals: npt.NDArray[np.int64]) -> None:
        names = docs.unique().sort()
        owners = np.zeros(0, np.int64) if docs.is_empty() else docs.rank("dense").to_numpy().astype(np.int64)
        self._places = SortedKeyIndex(names)
        self._order = np.lexsort((ordinals, owners))
        self._begins = np.searchsorted(owners[self._order], np.arange(1, len(names) + 2))

    def __getitem__(self, doc_id: str) -> Rows:
        place = self._places[doc_id]
        return self._order[self._begins[place] : self._begins[place + 1]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@dataclass(frozen=True)
class ChunkSpans:
    """The passage that each chunk delivers, shape (chunks, 2); rows: document id -> its chunks in order"""

    docs: pl.Series
    contexts: npt.NDArray[np.int64]
    rows: Mapping[str, Rows]

    @classmethod
    def of(cls, chunks: MappedChunks) -> Self:
        docs, ordinals = chunks.column("doc_id"), chunks.column("ordinal").to_numpy()
        bounds = [chunks.column(name).to_numpy() for name in ("context_start", "context_end")]
        return cls(docs, np.stack(bounds, axis=1).astype(np.int64), DocumentRows(docs, ordinals))

    def at(self, rows: Rows) -> list[Span]:
        return self.within(rows, self.contexts[rows])

    def within(self, rows: Rows, bounds: npt.NDArray[np.int64]) -> list[Span]:
        pairs = zip(self.docs[rows].to_list(), bounds.tolist(), strict=True)
        return [Span(doc, start, end) for doc, (start, end) in pairs]

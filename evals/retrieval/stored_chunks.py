"""The chunks of an index as they lie on disk: a column is read whole, or some rows where they lie."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rag_assay.assets.indexing.row_files import BATCH, CHUNKS, read_columns
from rag_assay.warehouse.errors import CorruptFileError

Rows = npt.NDArray[np.int64]
_DIGESTS = "row_hash"  # of rows, for the next build


class StoredChunks(Protocol):
    """Chunks in the order of their ids."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    def column(self, name: str) -> pl.Series:
        """Return a column whole."""

    def at(self, rows: Sequence[int] | Rows, *names: str) -> list[tuple[Any, ...]]:
        """Return the values of some columns in some rows, in the order of ``rows``."""


class MappedChunks:
    """Chunks in a memory-mapped file (`assets.indexing.row_files`), of which only what is read is in memory.

    Processes that read the same index share its pages.

    Args:
        folder: of the row files.

    Raises:
        CorruptFileError: the file is torn, or holds another number of chunks.
    """

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
        """Names of the columns."""
        return [name for name in self._file.schema.names if name != _DIGESTS]

    def column(self, name: str) -> pl.Series:
        """Return a column whole."""
        return read_columns(self._folder, [name])[name]

    def at(self, rows: Sequence[int] | Rows, *names: str) -> list[tuple[Any, ...]]:
        """Return the values of some columns in some rows, in the order of ``rows``."""
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


class HeldChunks:
    """Chunks in memory: those of an index that an earlier version built, without files of rows."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self._frame.columns

    def column(self, name: str) -> pl.Series:
        """Return a column whole."""
        return self._frame[name]

    def at(self, rows: Sequence[int] | Rows, *names: str) -> list[tuple[Any, ...]]:
        """Return the values of some columns in some rows, in the order of ``rows``."""
        return self._frame.select(names)[np.asarray(rows, np.int64)].rows()


class SortedKeyIndex(Mapping[str, int]):
    """Key -> its place among sorted keys, found by bisection: 16 bytes a key beside its own letters.

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

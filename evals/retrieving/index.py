"""An index opened for reading: its chunks in memory, its searchable parts made at first use and shared."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from assets.indexing import table as tables

if TYPE_CHECKING:
    from lancedb.table import Table


class OpenIndex:
    """One index, sorted by chunk id; a position in it stands for a chunk.

    Args:
        folder: the index's folder (`assets.indexing.table.build` wrote it).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[object, Any] = {}

    @cached_property
    def table(self) -> Table:
        """The LanceDB table, at its finished version."""
        return tables.open_table(self.folder)

    @cached_property
    def chunks(self) -> pl.DataFrame:
        """chunk_id, doc_id, ordinal, start, end, text, n_tokens, vector; sorted by chunk_id."""
        rows = pl.from_arrow(self.table.to_arrow())
        assert isinstance(rows, pl.DataFrame)  # noqa: S101 -- a table, not a column
        return rows.sort("chunk_id")

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Unit vectors, shape (chunks, dimensions)."""
        return np.ascontiguousarray(self.chunks["vector"].to_numpy(), dtype=np.float32)

    @cached_property
    def tokens(self) -> list[list[str]]:
        """The plain words of every chunk, in the order of the index."""
        return tables.read_lexical(self.folder).sort("chunk_id")["tokens"].to_list()

    @cached_property
    def positions(self) -> dict[str, int]:
        """Chunk id -> position."""
        return {chunk_id: position for position, chunk_id in enumerate(self.chunks["chunk_id"])}

    def made(self, key: object, make: Callable[[], Any]) -> Any:
        """Return what ``make`` makes, made once a key: a BM25 model serves all retrievers that share it."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def __len__(self) -> int:
        return len(self.chunks)

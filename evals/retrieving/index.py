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
from assets.indexing.lexical import Lexical, open_lexical

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
        """The columns of `assets.indexing.table.COLUMNS`, and vector; sorted by chunk_id."""
        rows = pl.from_arrow(self.table.to_arrow())
        assert isinstance(rows, pl.DataFrame)  # noqa: S101 -- a table, not a column
        return rows.sort("chunk_id")

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """Unit vectors, shape (chunks, dimensions)."""
        return np.ascontiguousarray(self.chunks["vector"].to_numpy(), dtype=np.float32)

    @cached_property
    def lexical(self) -> Lexical:
        """The words of every chunk, in the order of the index."""
        return open_lexical(self.folder / "lexical")

    @cached_property
    def positions(self) -> dict[str, int]:
        """Chunk id -> position."""
        return {chunk_id: position for position, chunk_id in enumerate(self.chunks["chunk_id"])}

    @cached_property
    def _texts(self) -> dict[str, str]:
        """Document id -> its text as far as chunks hold it, with the white space between them."""
        parts: dict[str, list[str]] = {}
        ends: dict[str, int] = {}
        columns = ("doc_id", "start", "end", "text", "gap")
        for doc, start, end, text, gap in self.chunks.sort("doc_id", "start").select(columns).iter_rows():
            known = ends.get(doc, 0)
            pieces = parts.setdefault(doc, [])
            if start > known:  # white space before the first chunk
                pieces.append(" " * (start - known))
                known = start
            pieces.append((text + gap)[known - start :])
            ends[doc] = max(known, end + len(gap))
        return {doc: "".join(pieces) for doc, pieces in parts.items()}

    def passage(self, doc_id: str, start: int, end: int) -> str:
        """Return `document.text[start:end]`, put together from the chunks that hold it."""
        return self._texts[doc_id][start:end]

    def made(self, key: object, make: Callable[[], Any]) -> Any:
        """Return what ``make`` makes, made once a key: a BM25 model serves all retrievers that share it."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def __len__(self) -> int:
        return len(self.chunks)

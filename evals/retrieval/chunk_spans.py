"""The document and span of each chunk of an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.evals.retrieval.stored_chunks import SortedKeyIndex, StoredChunks
from rag_assay.warehouse.spans import Span

Rows = npt.NDArray[np.int64]


class DocumentRows(Mapping[str, Rows]):
    """Document id -> its chunks, in the order of its text.

    Args:
        docs: the document of each chunk.
        ordinals: the place of each chunk in its document.
    """

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
    """The passage that each chunk delivers, in the order of the index.

    docs: the document of each chunk
    contexts: the first character of its passage and the one after its last, shape (chunks, 2)
    rows: document id -> its chunks, in the order of its text
    """

    docs: pl.Series
    contexts: npt.NDArray[np.int64]
    rows: Mapping[str, Rows]

    @classmethod
    def of(cls, chunks: StoredChunks) -> Self:
        """Read them off the chunks of an index."""
        docs, ordinals = chunks.column("doc_id"), chunks.column("ordinal").to_numpy()
        bounds = [chunks.column(name).to_numpy() for name in ("context_start", "context_end")]
        return cls(docs, np.stack(bounds, axis=1).astype(np.int64), DocumentRows(docs, ordinals))

    def at(self, rows: Rows) -> list[Span]:
        """Return the passages of these chunks."""
        return self.within(rows, self.contexts[rows])

    def within(self, rows: Rows, bounds: npt.NDArray[np.int64]) -> list[Span]:
        """Return spans of the documents of these chunks; ``bounds``: start and end of each, shape (n, 2)."""
        pairs = zip(self.docs.gather(rows).to_list(), bounds.tolist(), strict=True)
        return [Span(doc, start, end) for doc, (start, end) in pairs]

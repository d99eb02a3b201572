"""The document and span of each chunk of an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import polars as pl

from warehouse.spans import Span

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ChunkSpans:
    """The passage that each chunk delivers, in the order of the index.

    docs: the document of each chunk
    contexts: the first character of its passage and the one after its last, shape (chunks, 2)
    rows: document id -> its chunks, in the order of its text
    """

    docs: list[str]
    contexts: npt.NDArray[np.int64]
    rows: dict[str, Rows]

    @classmethod
    def of(cls, chunks: pl.DataFrame) -> Self:
        """Read them off the chunks of an index."""
        docs = chunks["doc_id"].to_list()
        rows: dict[str, list[int]] = {}
        for row in np.argsort(chunks["ordinal"].to_numpy(), kind="stable"):
            rows.setdefault(docs[row], []).append(int(row))
        contexts = chunks.select("context_start", "context_end").to_numpy().astype(np.int64)
        return cls(docs, contexts, {doc: np.array(members, np.int64) for doc, members in rows.items()})

    def at(self, rows: Rows) -> list[Span]:
        """Return the passages of these chunks."""
        return self.within(rows, self.contexts[rows])

    def within(self, rows: Rows, bounds: npt.NDArray[np.int64]) -> list[Span]:
        """Return spans of the documents of these chunks; ``bounds``: start and end of each, shape (n, 2)."""
        pairs = zip(rows.tolist(), bounds.tolist(), strict=True)
        return [Span(self.docs[row], start, end) for row, (start, end) in pairs]

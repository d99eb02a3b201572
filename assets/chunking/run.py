"""Documents in, chunks out."""

from __future__ import annotations

import polars as pl

from assets.chunking.contract import Chunker
from assets.embedding.tokenizer import Tokenizer
from warehouse.identity import digest
from warehouse.parquet import frame
from warehouse.schemas import CHUNKS


def chunk_documents(documents: pl.DataFrame, chunker: Chunker, tokenizer: Tokenizer) -> pl.DataFrame:
    """Cut every document (schemas.DOCUMENTS); return schemas.CHUNKS, sorted by document and position."""
    rows: list[dict[str, object]] = []
    for doc in documents.sort("doc_id").iter_rows(named=True):
        for ordinal, span in enumerate(chunker.split(doc["text"], tokenizer)):
            rows.append(
                {
                    "chunk_id": chunk_id(doc["doc_id"], doc["version"], span.start, span.end),
                    "doc_id": doc["doc_id"],
                    "doc_version": doc["version"],
                    "ordinal": ordinal,
                    "start": span.start,
                    "end": span.end,
                    "heading_path": heading_path(doc["sections"], span.start),
                    "text": doc["text"][span.start : span.end],
                    "n_tokens": span.n_tokens,
                }
            )
    return frame(rows, CHUNKS)


def chunk_id(doc_id: str, version: str, start: int, end: int) -> str:
    """Name a chunk by what it is: a stretch of one version of one document (equal texts elsewhere differ)."""
    return digest([doc_id, version, start, end])


def heading_path(sections: list[dict[str, object]] | None, position: int) -> list[str]:
    """Return the headings above a character position, outermost first."""
    inside = [s for s in sections or [] if int(str(s["start"])) <= position < int(str(s["end"]))]
    return [str(s["heading"]) for s in sorted(inside, key=lambda s: int(str(s["level"])))]

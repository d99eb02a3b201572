"""Documents in, chunks out."""

from __future__ import annotations

import polars as pl

from assets.chunking.contract import Chunker, Material, Section, Span, Tools
from assets.enriching.facts import document_facts, facts_of
from warehouse.identity import digest
from warehouse.parquet import frame
from warehouse.schemas import CHUNKS


def chunk_documents(documents: pl.DataFrame, chunker: Chunker, tools: Tools) -> pl.DataFrame:
    """Cut every document (schemas.DOCUMENTS); return schemas.CHUNKS, sorted by document and position."""
    rows: list[dict[str, object]] = []
    for doc in documents.sort("doc_id").iter_rows(named=True):
        sections = tuple(Section(**section) for section in doc["sections"] or ())
        spans = chunker.split(Material(doc["text"], sections), tools)
        gaps = _gaps(doc["text"], spans)
        known = document_facts(doc, len(spans))
        for ordinal, (span, gap) in enumerate(zip(spans, gaps, strict=True)):
            text = doc["text"][span.start : span.end]
            context = span.context or (span.start, span.end)
            rows.append(
                {
                    "chunk_id": chunk_id(doc["doc_id"], span.start, text),
                    "doc_id": doc["doc_id"],
                    "doc_version": doc["version"],
                    "ordinal": ordinal,
                    "start": span.start,
                    "end": span.end,
                    "text": text,
                    "gap": gap,
                    "context_start": context[0],
                    "context_end": context[1],
                    "prefix": span.prefix,
                    "n_tokens": span.n_tokens,
                    "heading_path": heading_path(sections, span.start),
                    **facts_of(known, span.start, ordinal, text),
                }
            )
    return frame(rows, CHUNKS)


def chunk_id(doc_id: str, start: int, text: str) -> str:
    """Name a chunk by what it is: a text at a place of a document, whatever else of the document changes."""
    return digest([doc_id, start, text])


def heading_path(sections: tuple[Section, ...], position: int) -> list[str]:
    """Return the headings above a character position, outermost first.

    >>> heading_path((Section("Chapter I", 1, 0, 9), Section("Article 1", 2, 3, 9)), 4)
    ['Chapter I', 'Article 1']
    """
    inside = [s for s in sections if s.start <= position < s.end]
    return [s.heading for s in sorted(inside, key=lambda s: s.level)]


def _gaps(text: str, spans: list[Span]) -> list[str]:
    """Return what follows each span up to where the next one begins: white space, or nothing."""
    begins = [*(span.start for span in spans), len(text)][1:]
    return [text[span.end : begin] for span, begin in zip(spans, begins, strict=True)]

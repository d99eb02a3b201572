"""The whole document as one chunk, as BEIR does it."""

from __future__ import annotations

from typing import ClassVar

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Tools, strip_span


class WholeDocument(Chunker):
    """One chunk a document. Long ones need an embedder that truncates or averages windows, and says so."""

    kind: ClassVar[str] = "document"

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        text = material.text
        start, end = strip_span(text, 0, len(text))
        return [ChunkSpan(start, end, tools.tokenizer.count([text[start:end]])[0])] if start < end else []

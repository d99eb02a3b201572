"""The whole document as one chunk, as BEIR does it."""

from __future__ import annotations

from typing import ClassVar

from assets.chunking.contract import Chunker, Material, Span, Tools, strip_span


class WholeDocument(Chunker):
    """One chunk a document. Long ones need an embedder that truncates or averages windows, and says so."""

    kind: ClassVar[str] = "document"
    code_version: ClassVar[str] = "1"

    def split(self, material: Material, tools: Tools) -> list[Span]:
        """Return one span over all of the text."""
        text = material.text
        start, end = strip_span(text, 0, len(text))
        return [Span(start, end, tools.tokenizer.count([text[start:end]])[0])] if start < end else []

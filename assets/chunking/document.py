"""The whole document as one chunk, as BEIR does it."""

from __future__ import annotations

from typing import ClassVar

from assets.chunking.contract import Chunker, Span, strip_span
from assets.embedding.tokenizer import Tokenizer


class WholeDocument(Chunker):
    """One chunk a document. Long ones need an embedder that truncates or averages windows, and says so."""

    code_version: ClassVar[str] = "1"

    def split(self, text: str, tokenizer: Tokenizer) -> list[Span]:
        """Return one span over all of the text."""
        start, end = strip_span(text, 0, len(text))
        return [Span(start, end, tokenizer.count([text[start:end]])[0])] if start < end else []

"""A chunker."""

from __future__ import annotations

import re
from typing import ClassVar

from rag_assay.assets.chunking import Chunker, ChunkerInput, ChunkSpan, Tools

_PARAGRAPH = re.compile(r"\S(?:.|\n(?!\s*\n))*")


class Paragraphs(Chunker):
    """One chunk a paragraph, however long."""

    kind: ClassVar[str] = "acme_paragraphs"

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        """Cut the text at blank lines."""
        found = [match.span() for match in _PARAGRAPH.finditer(material.text)]
        spans = [(start, start + len(material.text[start:end].rstrip())) for start, end in found]
        counts = tools.tokenizer.count([material.text[start:end] for start, end in spans])
        return [ChunkSpan(start, end, count) for (start, end), count in zip(spans, counts, strict=True)]

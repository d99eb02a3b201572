"""Sentence-window chunking: single sentences are searched and delivered with their neighbours."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Tools
from rag_assay.assets.chunking.ruler import fit_chunks
from rag_assay.assets.chunking.sentences import Units
from rag_assay.assets.tokenization.tokenizer import Tokenizer


class SentenceWindow(Chunker):
    """One sentence a chunk; its context is the sentences around it.

    neighbours: sentences on each side that are delivered with it
    limit: most tokens of a sentence as the embedder reads it, special tokens counted; a longer one is cut as
        `recursive` does, and each of its parts counts as a sentence
    """

    kind: ClassVar[str] = "sentence_window"
    code_version: ClassVar[str] = "3"

    neighbours: Annotated[int, Field(ge=0, le=100)] = 3
    limit: Annotated[int, Field(ge=16, le=8192)] = 256

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        tokenizer = tools.tokenizer
        size = self.limit - tokenizer.special_tokens
        return fit_chunks(lambda room: self._sentences(material.text, tokenizer, room), size, tokenizer)

    def _sentences(self, text: str, tokenizer: Tokenizer, size: int) -> list[ChunkSpan]:
        units = Units(text, tokenizer, size)
        places = units.places
        last = len(places) - 1
        return [
            span._replace(
                context=(
                    places[max(0, number - self.neighbours)][0],
                    places[min(last, number + self.neighbours)][1],
                )
            )
            for number, span in enumerate(units.ruler.spans(places))
        ]

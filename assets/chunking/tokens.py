"""Token chunking: windows of n tokens that overlap by m, counted by the embedder's tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Tools, strip_span
from rag_assay.assets.chunking.ruler import Ruler, at_least, fit_chunks, pack

if TYPE_CHECKING:
    from rag_assay.assets.tokenization.tokenizer import Tokenizer


class TokenWindows(Chunker):
    """Windows over whole words.

    size: most tokens in a window, special tokens not counted
    overlap: tokens that neighbouring windows share at least. Words are not cut, so they may share up to one
        word more; they share less only where the next word is so long that it would not fit beside them. A
        run of words no longer than the overlap lies inside at least one window.

    A cut between words leaves their tokens as they were in the document, so a window holds exactly as many
    tokens when it is embedded alone. A word that no window can hold is cut; its pieces share nothing.
    """

    kind: ClassVar[str] = "tokens"
    code_version: ClassVar[str] = "2"

    size: Annotated[int, Field(ge=8, le=8192)]
    overlap: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap ({self.overlap}) must be smaller than size ({self.size})")
        return self

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        return token_windows(material.text, tools.tokenizer, self.size, self.overlap)


def token_windows(text: str, tokenizer: Tokenizer, size: int, overlap: int = 0) -> list[ChunkSpan]:
    return fit_chunks(lambda room: _windows(text, tokenizer, room, overlap), size, tokenizer)


def _windows(text: str, tokenizer: Tokenizer, size: int, overlap: int) -> list[ChunkSpan]:
    ruler = Ruler(text, tokenizer, size)
    starts = ruler.words.starts
    if not len(starts):
        start, end = strip_span(text, 0, len(text))
        return [ChunkSpan(start, end, 0)] if start < end else []
    bounds = np.append(starts, len(text))
    bounds[0] = 0
    windows = np.array(pack(ruler.sums, size, at_least(ruler.sums, overlap)), np.int64)
    places = [strip_span(text, start, end) for start, end in bounds[windows].tolist()]
    # A piece of a word may be nothing but separators that the tokenizer deletes.
    return ruler.spans([(start, end) for start, end in places if start < end])

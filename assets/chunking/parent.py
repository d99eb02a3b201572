"""Parent chunking: small chunks are searched, the larger section around them is delivered."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Tools
from rag_assay.assets.chunking.recursive import recursive_spans
from rag_assay.assets.chunking.tokens import token_windows


class Parent(Chunker):
    """Windows of tokens within parents, which are cut at paragraphs, lines or spaces and share nothing.

    size: most tokens in a window, special tokens not counted
    overlap: tokens that neighbouring windows of one parent share, as in `tokens`
    parent_size: most tokens in a parent; it is delivered, never embedded
    """

    kind: ClassVar[str] = "parent"

    size: Annotated[int, Field(ge=8, le=8192)] = 128
    overlap: Annotated[int, Field(ge=0)] = 42
    parent_size: Annotated[int, Field(ge=8, le=100_000)] = 1024

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap ({self.overlap}) must be smaller than size ({self.size})")
        if self.parent_size <= self.size:
            raise ValueError(f"parent_size ({self.parent_size}) must be larger than size ({self.size})")
        return self

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        spans = []
        for parent in recursive_spans(material.text, tools.tokenizer, self.parent_size):
            text = material.text[parent.start : parent.end]
            for child in token_windows(text, tools.tokenizer, self.size, self.overlap):
                start, end = parent.start + child.start, parent.start + child.end
                spans.append(ChunkSpan(start, end, child.n_tokens, context=(parent.start, parent.end)))
        return spans

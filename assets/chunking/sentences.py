"""Sentence chunking: as many whole sentences as fit into a token limit."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Tools
from rag_assay.assets.chunking.recursive import recursive_spans
from rag_assay.assets.chunking.ruler import Place, Ruler, fit_chunks, pack, pieces
from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.assets.tokenization.tokenizer import Tokenizer


class SentenceChunker(Chunker):
    """Sentences packed in their order.

    size: most tokens in a chunk, special tokens not counted
    overlap: sentences that neighbouring chunks share; fewer where the next sentence would not fit beside them

    A sentence that is longer than the size is cut as `recursive` does, and each of its parts counts as one;
    where chunks overlap, the parts are of half the size, so that they can be shared.
    """

    kind: ClassVar[str] = "sentences"
    code_version: ClassVar[str] = "3"

    size: Annotated[int, Field(ge=8, le=8192)] = 256
    overlap: Annotated[int, Field(ge=0, le=100)] = 1

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        def cut(room: int) -> list[ChunkSpan]:
            part = max(1, room // 2) if self.overlap else room
            units = Units(material.text, tools.tokenizer, room, part)
            return units.ruler.spans(units.packed(0, len(units.places), room, self.overlap))

        return fit_chunks(cut, self.size, tools.tokenizer)


class Units:
    """The sentences of a text; those over ``limit`` tokens are cut into parts of at most ``part`` tokens."""

    def __init__(self, text: str, tokenizer: Tokenizer, limit: int, part: int | None = None) -> None:
        part = part or limit
        self.ruler = Ruler(text, tokenizer, part, limit)
        sentences = sentence_places(text)
        bounds = np.array([*(start for start, _ in sentences), len(text)], np.int64)
        self.places: list[Place] = []
        counts: list[int] = []
        tokens = np.diff(self.ruler.before(bounds)).tolist()
        for (start, end), n_tokens in zip(sentences, tokens, strict=True):
            if n_tokens <= limit:
                self.places.append((start, end))
                counts.append(n_tokens)
                continue
            parts = recursive_spans(text[start:end], tokenizer, part)
            self.places += [(start + one.start, start + one.end) for one in parts]
            # Parts of a word may join into other tokens: each is to stand alone.
            counts += [limit if self.ruler.cut_words else one.n_tokens for one in parts]
        self._sums = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    def packed(self, first: int, after: int, size: int, overlap: int = 0) -> list[Place]:
        windows = pack(self._sums[first : after + 1], size, pieces(after - first, overlap))
        return [(self.places[first + one][0], self.places[first + end - 1][1]) for one, end in windows]

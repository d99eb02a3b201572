"""Recursive splitting at paragraphs, lines, spaces or anywhere, as LangChain does it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assay.assets.chunking.contract import Chunker, ChunkerInput, ChunkSpan, Tools, strip_span
from rag_assay.assets.chunking.ruler import Place, Ruler, at_most, fit_chunks, pack

if TYPE_CHECKING:
    from rag_assay.assets.tokenization.tokenizer import Ints, Tokenizer

SEPARATORS = ("\n\n", "\n", " ")


class Recursive(Chunker):
    """Splits at the first separator that the text holds, and what is still too long at the next one.

    Neighbouring pieces are packed together up to the size.

    unit: what size and overlap are measured in
    size: most characters, or tokens (special tokens not counted), of a chunk
    overlap: most that neighbouring chunks share, in whole pieces: the first piece that is longer ends it.
        Pieces that were split at different separators share nothing.
    separators: from the coarsest to the finest. What they do not split is cut between words (unit: tokens)
        or between characters; with tokens, a separator inside a word splits nothing.
    """

    kind: ClassVar[str] = "recursive"

    unit: Literal["characters", "tokens"] = "characters"
    size: Annotated[int, Field(ge=8, le=100_000)] = 1000
    overlap: Annotated[int, Field(ge=0)] = 100
    separators: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], Field(max_length=20)
    ] = SEPARATORS

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap ({self.overlap}) must be smaller than size ({self.size})")
        return self

    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        text = material.text
        if self.unit == "tokens":
            return recursive_spans(text, tools.tokenizer, self.size, self.overlap, self.separators)
        places = _Splitter(text, self.size, self.overlap, None).places(0, len(text), self.separators)
        return Ruler(text, tools.tokenizer).spans(_tidy(text, places))


def recursive_spans(
    text: str, tokenizer: Tokenizer, size: int, overlap: int = 0, separators: tuple[str, ...] = SEPARATORS
) -> list[ChunkSpan]:
    def cut(room: int) -> list[ChunkSpan]:
        ruler = Ruler(text, tokenizer, room)
        places = _Splitter(text, room, min(overlap, room - 1), ruler).places(0, len(text), separators)
        return ruler.spans(_tidy(text, places))

    return fit_chunks(cut, size, tokenizer)


def _tidy(text: str, places: Iterable[Place]) -> list[Place]:
    kept: list[Place] = []
    for place in places:
        start, end = strip_span(text, *place)
        if start < end and (not kept or end > kept[-1][1]):
            kept.append((start, end))
    return kept


class _Splitter(NamedTuple):
    text: str
    size: int
    overlap: int
    ruler: Ruler | None  # None: characters are measured

    def places(self, start: int, end: int, separators: tuple[str, ...]) -> list[Place]:
        bounds, finer = self._bounds(start, end, separators)
        sums = bounds if self.ruler is None else self.ruler.before(bounds)
        if finer is None:
            return self._packed(bounds, sums)
        places: list[Place] = []
        done = 0
        # Not "longer than": a piece of just the size is split again, as LangChain does.
        for long in np.flatnonzero(np.diff(sums) >= self.size).tolist():
            places += self._packed(bounds[done : long + 1], sums[done : long + 1])
            places += self.places(int(bounds[long]), int(bounds[long + 1]), finer)
            done = long + 1
        return places + self._packed(bounds[done:], sums[done:])

    def _bounds(
        self, start: int, end: int, separators: tuple[str, ...]
    ) -> tuple[Ints, tuple[str, ...] | None]:
        for number, separator in enumerate(separators):
            found = re.compile(re.escape(separator)).finditer(self.text, start, end)
            at = np.fromiter((match.start() for match in found), np.int64)
            if self.ruler is not None and len(at):
                at = at[~self.ruler.cuts_word(at)]
            if len(at):
                return _between(start, at, end), separators[number + 1 :]
        if self.ruler is None:
            return np.arange(start, end + 1), None
        words = self.ruler.words.starts
        first, after = np.searchsorted(words, [start, end])
        return _between(start, words[first:after], end), None

    def _packed(self, bounds: Ints, sums: Ints) -> list[Place]:
        windows = pack(sums, self.size, at_most(sums, self.overlap))
        return [(int(bounds[first]), int(bounds[after])) for first, after in windows]


def _between(start: int, positions: Ints, end: int) -> Ints:
    first = positions[:1] if len(positions) and positions[0] == start else np.array([start])
    rest = positions[1:] if len(positions) and positions[0] == start else positions
    return np.concatenate([first, rest, [end]])

"""The contract of a chunker; `tests/contracts/test_chunkers.py` checks every implementation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_assay.assets.tokenization.tokenizer import Tokenizer
from rag_assay.warehouse.components import Component

if TYPE_CHECKING:
    import numpy.typing as npt


class Section(NamedTuple):
    """A part of a text under one heading: `text[start:end]`, the heading included; level 1 is outermost."""

    heading: str
    level: int
    start: int
    end: int


class ChunkerInput(NamedTuple):
    """What a chunker sees of a document."""

    text: str
    sections: tuple[Section, ...] = ()


class Tools(NamedTuple):
    """What a chunker may use; ``embed``: texts -> unit vectors, float32, shape (texts, dimensions)."""

    tokenizer: Tokenizer
    embed: Callable[[Sequence[str]], npt.NDArray[np.float32]] | None = None


class ChunkSpan(NamedTuple):
    """One chunk of a text: `text[start:end]`.

    n_tokens: of `prefix + text[start:end]`, without special tokens
    prefix: put before the text when it is embedded, with its separator
    context: characters that are delivered; None: the chunk itself
    """

    start: int
    end: int
    n_tokens: int
    prefix: str = ""
    context: tuple[int, int] | None = None


class Chunker(Component):
    """A way to cut a text into chunks.

    The contract: offsets are exact; the union of the spans covers the text, white space aside; no span is
    longer than the recipe's limit; spans come in reading order, none inside its neighbour, and only white
    space lies between them; a context holds its span; the same text gives the same spans in every process.
    A `size` counts tokens of the text alone; a `limit` counts the prefix and the model's special tokens
    too.
    """

    @property
    def embedding_model(self) -> str | None:
        return None

    @abstractmethod
    def split(self, material: ChunkerInput, tools: Tools) -> list[ChunkSpan]:
        """Cut ``material.text``; an empty or blank text has no chunks."""

    def split_many(self, materials: Sequence[ChunkerInput], tools: Tools) -> list[list[ChunkSpan]]:
        return [self.split(material, tools) for material in materials]


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Narrow a span by the white space at its ends.

    >>> strip_span("a  b ", 1, 5)
    (3, 4)
    """
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end

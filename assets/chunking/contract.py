"""What every chunker keeps to; `tests/contracts/test_chunkers.py` holds each one to it."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from assets.embedding.tokenizer import Tokenizer
from warehouse.recipe import Recipe


class Span(NamedTuple):
    """One chunk of a text: `text[start:end]`, and its number of tokens without special ones."""

    start: int
    end: int
    n_tokens: int


class Chunker(Recipe):
    """A way to cut a text into chunks.

    The contract: offsets are exact; the union of the spans covers the text, white space aside; no span is
    longer than the recipe's limit; spans come in reading order; the same text gives the same spans in every
    process; any Unicode text passes.
    """

    @abstractmethod
    def split(self, text: str, tokenizer: Tokenizer) -> list[Span]:
        """Cut ``text``; an empty or blank text has no chunks."""


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

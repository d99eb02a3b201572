"""Windows of n tokens with an overlap of m, measured by the embedder's own tokenizer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from assets.chunking.contract import Chunker, Span, strip_span
from assets.embedding.tokenizer import Ints, Tokenizer, Words

MAX_WORD_CHARACTERS = 1_000  # a longer "word" is one [UNK] to a tokenizer: it is cut, so that chunks stay readable


class TokenWindows(Chunker):
    """Windows over whole words.

    size: most tokens in a window, special tokens not counted
    overlap: tokens that neighbouring windows share at least; since words are not cut, a window may share
        up to one word more. A piece of text no longer than the overlap lies inside at least one window.

    A cut between words leaves their tokens as they were in the document, so a window holds exactly as many
    tokens when it is embedded alone.
    """

    code_version: ClassVar[str] = "1"

    size: Annotated[int, Field(ge=8, le=8192)]
    overlap: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap ({self.overlap}) must be smaller than size ({self.size})")
        return self

    def split(self, text: str, tokenizer: Tokenizer) -> list[Span]:
        """Return the windows in reading order; each covers the text up to where its next word begins."""
        whole_words = tokenizer.words(text)
        words = _cut_long_words(text, whole_words, tokenizer, self.size)
        if not len(words.starts):
            start, end = strip_span(text, 0, len(text))
            return [Span(start, end, 0)] if start < end else []
        sums = np.concatenate([[0], np.cumsum(words.tokens)])
        bounds = np.append(words.starts, len(text))
        bounds[0] = 0
        spans = []
        for first, last in _windows(sums, self.size, self.overlap):
            start, end = strip_span(text, int(bounds[first]), int(bounds[last]))
            spans.append(Span(start, end, int(sums[last] - sums[first])))
        if len(words.starts) > len(whole_words.starts):  # pieces of words: their tokens are known only once joined
            counts = tokenizer.count([text[span.start : span.end] for span in spans])
            spans = [Span(span.start, span.end, n) for span, n in zip(spans, counts, strict=True)]
        return spans


def _windows(sums: Ints, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return (first word, word after the last) of each window, from the running sum of tokens, shape (words + 1,).

    >>> _windows(np.array([0, 1, 2, 3, 4, 5]), size=3, overlap=1)
    [(0, 3), (2, 5)]
    """
    n_words = len(sums) - 1
    windows, first = [], 0
    while True:
        last = max(first + 1, int(np.searchsorted(sums, sums[first] + size, side="right")) - 1)
        windows.append((first, last))
        if last >= n_words:
            return windows
        back = int(np.searchsorted(sums, sums[last] - overlap, side="right")) - 1
        first = max(first + 1, min(back, last))


def _cut_long_words(text: str, words: Words, tokenizer: Tokenizer, limit: int) -> Words:
    """Cut the words that no window could hold into pieces that fit; others stay as they are."""
    long = (words.tokens > limit) | (words.ends - words.starts > MAX_WORD_CHARACTERS)
    if not long.any():
        return words
    starts, ends, tokens = [], [], []
    for start, end, n_tokens, is_long in zip(words.starts, words.ends, words.tokens, long, strict=True):
        pieces = _pieces(text, int(start), int(end), tokenizer, limit) if is_long else [(start, end, n_tokens)]
        for piece_start, piece_end, piece_tokens in pieces:
            starts.append(piece_start)
            ends.append(piece_end)
            # Pieces of one word may join into other tokens: each is a window of its own, by counting as a full one.
            tokens.append(limit if is_long else piece_tokens)
    return Words(np.array(starts, np.int64), np.array(ends, np.int64), np.array(tokens, np.int64))


def _pieces(text: str, start: int, end: int, tokenizer: Tokenizer, limit: int) -> list[tuple[int, int, int]]:
    """Halve ``text[start:end]`` until every piece has at most ``limit`` tokens and a readable length."""
    n_tokens = tokenizer.count([text[start:end]])[0]
    if (n_tokens <= limit and end - start <= MAX_WORD_CHARACTERS) or end - start == 1:
        return [(start, end, n_tokens)]
    middle = (start + end) // 2
    return [*_pieces(text, start, middle, tokenizer, limit), *_pieces(text, middle, end, tokenizer, limit)]

"""Windows of n tokens with an overlap of m, measured by the embedder's own tokenizer."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from assets.chunking.contract import Chunker, Material, Span, Tools, strip_span
from assets.embedding.tokenizer import Ints, Tokenizer, Words

MAX_WORD_CHARACTERS = 1_000  # a longer "word" is one [UNK] to a tokenizer: it is cut, to stay readable


class TokenWindows(Chunker):
    """Windows over whole words.

    size: most tokens in a window, special tokens not counted
    overlap: tokens that neighbouring windows share at least. Words are not cut, so they may share up to one
        word more; they share less only where the next word is so long that it would not fit beside them. A
        run of words no longer than the overlap lies inside at least one window.

    A cut between words leaves their tokens as they were in the document, so a window holds exactly as many
    tokens when it is embedded alone. A word that no window can hold is cut; its pieces share nothing.
    """

    code_version: ClassVar[str] = "2"

    size: Annotated[int, Field(ge=8, le=8192)]
    overlap: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap ({self.overlap}) must be smaller than size ({self.size})")
        return self

    def split(self, material: Material, tools: Tools) -> list[Span]:
        """Return the windows in reading order; each covers the text up to where its next word begins."""
        return token_windows(material.text, tools.tokenizer, self.size, self.overlap)


def token_windows(text: str, tokenizer: Tokenizer, size: int, overlap: int = 0) -> list[Span]:
    """Cut ``text`` into windows of at most ``size`` tokens, as `TokenWindows` says."""
    whole_words = tokenizer.words(text)
    words = _cut_long_words(text, whole_words, tokenizer, size)
    if not len(words.starts):
        start, end = strip_span(text, 0, len(text))
        return [Span(start, end, 0)] if start < end else []
    sums = np.concatenate([[0], np.cumsum(words.tokens)])
    bounds = np.append(words.starts, len(text))
    bounds[0] = 0
    spans = []
    for first, last in _windows(sums, size, overlap):
        start, end = strip_span(text, int(bounds[first]), int(bounds[last]))
        if start < end:  # a piece of a word may be nothing but separators that the tokenizer deletes
            spans.append(Span(start, end, int(sums[last] - sums[first])))
    if words is not whole_words:  # pieces of words: their tokens are known only once they are cut
        counts = tokenizer.count([text[span.start : span.end] for span in spans])
        spans = [Span(span.start, span.end, n) for span, n in zip(spans, counts, strict=True)]
    return spans


def _windows(sums: Ints, size: int, overlap: int) -> list[tuple[int, int]]:
    """Return (first word, word after the last) of each window.

    Args:
        sums: tokens before each word, and at the end all of them, shape (words + 1,); no word has more than
            ``size``.
        size: most tokens in a window.
        overlap: tokens that neighbours share, as far as the next word fits beside them.

    >>> _windows(np.array([0, 1, 2, 3, 4, 5]), size=3, overlap=1)
    [(0, 3), (2, 5)]
    >>> _windows(np.array([0, 4, 8, 13]), size=8, overlap=4)  # 4 + 5 tokens would be too many
    [(0, 2), (2, 3)]
    """
    n_words = len(sums) - 1
    # By the first word of a window: the word after its last.
    after = np.searchsorted(sums, sums + size, side="right") - 1
    # By the word after its last: where the next window begins that shares enough, and where the first one
    # that has room for a word more.
    overlapping = np.searchsorted(sums, sums - overlap, side="right") - 1
    fitting = np.searchsorted(sums, sums[1:] - size, side="left")
    windows, first = [], 0
    while True:
        last = int(after[first])
        windows.append((first, last))
        if last >= n_words:
            return windows
        first = max(int(overlapping[last]), int(fitting[last]))


def _cut_long_words(text: str, words: Words, tokenizer: Tokenizer, limit: int) -> Words:
    """Cut the words that no window could hold into pieces that fit; others stay as they are."""
    long = np.flatnonzero((words.tokens > limit) | (words.ends - words.starts > MAX_WORD_CHARACTERS))
    if not len(long):
        return words
    starts: list[Any] = []
    ends: list[Any] = []
    tokens: list[Any] = []
    done = 0
    for word in long.tolist():
        pieces = _pieces(text, int(words.starts[word]), int(words.ends[word]), tokenizer, limit)
        starts += [words.starts[done:word], [start for start, _ in pieces]]
        ends += [words.ends[done:word], [end for _, end in pieces]]
        # Pieces of one word may join into other tokens: each is a window alone, by counting as a full one.
        tokens += [words.tokens[done:word], [limit] * len(pieces)]
        done = word + 1
    return Words(
        np.concatenate([*starts, words.starts[done:]]).astype(np.int64),
        np.concatenate([*ends, words.ends[done:]]).astype(np.int64),
        np.concatenate([*tokens, words.tokens[done:]]).astype(np.int64),
    )


def _pieces(text: str, start: int, end: int, tokenizer: Tokenizer, limit: int) -> list[tuple[int, int]]:
    """Cut ``text[start:end]`` at a readable length, and halve what has more than ``limit`` tokens even so."""
    step = MAX_WORD_CHARACTERS
    pieces = [(at, min(at + step, end)) for at in range(start, end, step)]
    fit: list[tuple[int, int]] = []
    while pieces:
        counts = tokenizer.count([text[begin:stop] for begin, stop in pieces])
        halves = []
        for (begin, stop), n_tokens in zip(pieces, counts, strict=True):
            if n_tokens <= limit or stop - begin == 1:
                fit.append((begin, stop))
            else:
                middle = (begin + stop) // 2
                halves += [(begin, middle), (middle, stop)]
        pieces = halves
    return sorted(fit)

"""Counts the embedder's tokens in any span of a text without tokenising it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unicodedata import combining

import numpy as np

from rag_assay.assets.chunking.contract import ChunkSpan
from rag_assay.assets.tokenization.tokenizer import Ints, Tokenizer, Words

if TYPE_CHECKING:
    import numpy.typing as npt


def pack(sums: Ints, size: int, shared: Ints) -> list[tuple[int, int]]:
    """Return (first piece, piece after the last) of each window.

    >>> sums = np.array([0, 1, 2, 3, 4, 5])
    >>> pack(sums, 3, at_least(sums, 1))
    [(0, 3), (2, 5)]
    >>> sums = np.array([0, 4, 8, 13])
    >>> pack(sums, 8, at_least(sums, 4))  # 4 + 5 would be too much
    [(0, 2), (2, 3)]
    """
    n_pieces = len(sums) - 1
    if sums[-1] - sums[0] <= size:
        return [(0, n_pieces)] if n_pieces else []
    # By the first piece of a window: the piece after its last.
    after = np.searchsorted(sums, sums + size, side="right") - 1
    # By the piece after its last: where the first window begins that has room for a piece more.
    fitting = np.searchsorted(sums, sums[1:] - size, side="left")
    begin = np.maximum(shared[:-1], fitting).tolist()
    windows, first, ends = [], 0, after.tolist()
    while True:
        last = ends[first]
        windows.append((first, last))
        if last >= n_pieces:
            return windows
        first = begin[last]


def at_least(sums: Ints, overlap: int) -> Ints:
    """Share ``overlap``, and up to one piece more; -1 where there is less than that before it.

    >>> at_least(np.array([0, 2, 4, 6]), 3)
    array([-1, -1,  0,  1])
    """
    return np.searchsorted(sums, sums - overlap, side="right") - 1


def at_most(sums: Ints, overlap: int) -> Ints:
    """Share as many whole pieces as are no longer than ``overlap`` together.

    >>> at_most(np.array([0, 2, 4, 6]), 3)
    array([0, 0, 1, 2])
    """
    return np.searchsorted(sums, sums - overlap, side="left")


def pieces(count: int, overlap: int) -> Ints:
    """Share a number of pieces.

    >>> pieces(4, 1)
    array([0, 0, 1, 2, 3])
    """
    return np.maximum(np.arange(count + 1) - overlap, 0)


MAX_WORD_CHARACTERS = 1_000  # a longer "word" is one [UNK] to a tokenizer: it is cut, to stay readable

Place = tuple[int, int]
"""Where a span of a text begins and ends, in characters."""


def fit_chunks(cut: Callable[[int], list[ChunkSpan]], size: int, tokenizer: Tokenizer) -> list[ChunkSpan]:
    """Return ``cut(size)``, or if the tokenizer is not `steady`, for the largest room whose chunks fit."""
    spans = cut(size)
    room = size
    step = 0
    while not tokenizer.steady and room > 1 and not fits(spans, size):
        step = max(longest(spans) - size, 2 * step)
        room = max(1, room - step)
        spans = cut(room)
    return spans


def fits(spans: Sequence[ChunkSpan], size: int) -> bool:
    return longest(spans) <= size


def longest(spans: Sequence[ChunkSpan]) -> int:
    return max((span.n_tokens for span in spans), default=0)


class Ruler:
    """The tokens of one text, by its words; exact with a steady tokenizer, else estimates.

    words: those over ``limit`` tokens are cut into pieces that count as ``full``
    sums: tokens before each word, and in total, shape (words + 1,)
    """

    def __init__(
        self, text: str, tokenizer: Tokenizer, limit: int | None = None, full: int | None = None
    ) -> None:
        self.text = text
        self._tokenizer = tokenizer
        self._whole = _with_their_marks(text, tokenizer.words(text))
        self._whole_sums = _sums(self._whole)
        self.words = self._whole
        if limit is not None:
            self.words = _cut_long_words(text, self._whole, tokenizer, limit, full or limit)
        self.cut_words = self.words is not self._whole
        self.sums = _sums(self.words) if self.cut_words else self._whole_sums

    def before(self, positions: Ints) -> Ints:
        return self.sums[np.searchsorted(self.words.starts, positions)]

    def cuts_word(self, positions: Ints) -> npt.NDArray[np.bool_]:
        return _within(self.words, positions)

    def spans(self, places: Sequence[Place]) -> list[ChunkSpan]:
        if not places:
            return []
        bounds = np.array(places, np.int64)
        if not self._tokenizer.steady:
            alone = self._tokenizer.count([self.text[start:end] for start, end in places])
            return [ChunkSpan(start, end, count) for (start, end), count in zip(places, alone, strict=True)]
        before = self._whole_sums[np.searchsorted(self._whole.starts, bounds)]
        counts = (before[:, 1] - before[:, 0]).tolist()
        inside: list[bool] = np.any(_within(self._whole, bounds), axis=1).tolist()
        again = [row for row, place in enumerate(places) if inside[row] or self._parts_marks(*place)]
        alone = self._tokenizer.count([self.text[slice(*places[row])] for row in again])
        for row, count in zip(again, alone, strict=True):
            counts[row] = count
        return [ChunkSpan(start, end, count) for (start, end), count in zip(places, counts, strict=True)]

    def _parts_marks(self, start: int, end: int) -> bool:
        text = self.text
        return combining(text[start]) != 0 or (end < len(text) and combining(text[end]) != 0)


def _sums(words: Words) -> Ints:
    return np.concatenate([[0], np.cumsum(words.tokens)])


def _with_their_marks(text: str, words: Words) -> Words:
    """Let a word begin with the first of its combining marks, which tokenizers reorder."""
    marks = set() if text.isascii() else {sign for sign in set(text) if combining(sign)}
    if not marks:
        return words
    starts = words.starts.tolist()
    before = -1
    for number, start in enumerate(starts):
        while start - 1 > before and text[start] in marks and text[start - 1] in marks:
            start -= 1  # noqa: PLW2901 -- it is put back below
        starts[number] = before = start
    return Words(np.array(starts, np.int64), words.ends, words.tokens)


def _within(words: Words, positions: Ints) -> npt.NDArray[np.bool_]:
    last = np.searchsorted(words.starts, positions) - 1  # the last word that begins before it
    return positions < np.concatenate([words.ends, [0]])[last]


def _cut_long_words(text: str, words: Words, tokenizer: Tokenizer, limit: int, full: int) -> Words:
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
        tokens += [words.tokens[done:word], [full] * len(pieces)]
        done = word + 1
    return Words(
        np.concatenate([*starts, words.starts[done:]]).astype(np.int64),
        np.concatenate([*ends, words.ends[done:]]).astype(np.int64),
        np.concatenate([*tokens, words.tokens[done:]]).astype(np.int64),
    )


def _pieces(text: str, start: int, end: int, tokenizer: Tokenizer, limit: int) -> list[Place]:
    pieces = list(pairwise([*range(start, end, MAX_WORD_CHARACTERS), end]))
    fit: list[Place] = []
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

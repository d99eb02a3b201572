"""The lexical index: postings of words in chunks, stored as memory-mapped arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.memory_maps import let_go
from rag_assay.warehouse.parquet import read_parquet, write_parquet

_WORD = re.compile(r"\w+")
BLOCK = 8_192
MANY = 8_000_000  # postings of which those that were read are worth letting go of: 64 MB
_ARRAYS = ("begins", "rows", "counts", "lengths")


def plain_tokens(text: str) -> list[str]:
    """Return the lower-cased runs of letters, digits and underscores.

    >>> plain_tokens("Straßenlärm: Art. 5(2)")
    ['strassenlärm', 'art', '5', '2']
    """
    return _WORD.findall(text.casefold())


@dataclass(frozen=True)
class Lexical:
    """Postings of the words of a corpus: a word-by-chunk matrix of counts, in compressed rows.

    words: sorted, each once
    begins: where each word's postings begin, and after the last one their number; shape (words + 1,)
    rows: positions of the chunks that hold the word, rising; shape (postings,)
    counts: how often they hold it; shape (postings,)
    lengths: words of each chunk; shape (chunks,)
    """

    words: list[str]
    begins: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Word -> its place in `words`."""
        return {word: number for number, word in enumerate(self.words)}

    def postings(self, word: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the chunks that hold a word, and how often; empty for an unknown one."""
        number = self.numbers.get(word)
        if number is None:
            return self.rows[:0], self.counts[:0]
        part = slice(int(self.begins[number]), int(self.begins[number + 1]))
        return self.rows[part], self.counts[part]

    def let_go(self) -> None:
        """Let go of postings that were read from a file, where there are many (`MANY`)."""
        if len(self.rows) > MANY:
            let_go(self.rows)
            let_go(self.counts)


NOTHING = Lexical([], np.zeros(1, np.int64), *(np.zeros((3, 0), np.int32)))
"""The lexical index of no text."""


def lexical_of(texts: Iterable[str]) -> Lexical:
    """Count the plain words of texts in memory; `assets.indexing.inverted_index.invert` does it on disk."""
    return next(runs_of(texts, None), NOTHING)


def runs_of(texts: Iterable[str], most: int | None) -> Iterator[Lexical]:
    """Count the plain words of texts, as many texts at once as have about ``most`` postings together.

    Each run has the words and the lengths of its own texts; its rows are counted from the first text of all.
    Held are its vocabulary, one pair of small numbers a posting, and the words of BLOCK texts.

    most: None: all texts are one run
    """
    rest, first = _batched(texts), 0
    held = next(rest, None)
    while held is not None:
        numbers: dict[str, int] = {}
        blocks: list[_Block] = []
        lengths: list[npt.NDArray[np.int32]] = []
        postings = 0
        while held is not None and (most is None or postings < most):
            tokens = [
                [numbers.setdefault(word, len(numbers)) for word in plain_tokens(text)] for text in held
            ]
            lengths.append(np.array([len(one) for one in tokens], np.int32))
            blocks.append(_block(tokens, lengths[-1], first))
            first += len(held)
            postings += len(blocks[-1].rows)
            held = next(rest, None)
        words = sorted(numbers)
        place = np.zeros(len(words), np.int64)
        place[[numbers[word] for word in words]] = np.arange(len(words))
        yield Lexical(words, *_join(blocks, place), np.concatenate(lengths))


def _batched(texts: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(texts)
    while held := list(islice(rest, BLOCK)):
        yield held


class _Block(NamedTuple):
    """Postings of some texts, ordered by the number of the word and then by row."""

    words: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]


def _block(tokens: list[list[int]], lengths: npt.NDArray[np.int32], first: int) -> _Block:
    flat = np.fromiter(chain.from_iterable(tokens), np.int64, int(lengths.sum()))
    # One number a (word, text) pair, so that one sort groups and orders the postings.
    pairs, counts = np.unique(flat * BLOCK + np.repeat(np.arange(len(lengths)), lengths), return_counts=True)
    rows = (pairs % BLOCK + first).astype(np.int32)
    return _Block((pairs // BLOCK).astype(np.int32), rows, counts.astype(np.int32))


def _join(
    blocks: list[_Block], place: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Lay the postings of all blocks out by the place of their word; return begins, rows and counts."""
    sizes = np.zeros(len(place), np.int64)
    for block in blocks:
        sizes += np.bincount(place[block.words], minlength=len(place))
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    rows, counts = np.empty(begins[-1], np.int32), np.empty(begins[-1], np.int32)
    free = begins[:-1].copy()  # where each word's next posting goes
    while blocks:
        block = blocks.pop(0)
        words, starts, lengths = np.unique(block.words, return_index=True, return_counts=True)
        targets = np.repeat(free[place[words]] - starts, lengths) + np.arange(len(block.words))
        rows[targets], counts[targets] = block.rows, block.counts
        free[place[words]] += lengths
    return begins, rows, counts


def write_lexical(lexical: Lexical, folder: Path) -> None:
    """Write a lexical index into ``folder``."""
    write_parquet(pl.DataFrame({"word": pl.Series(lexical.words, dtype=pl.String)}), folder / "words.parquet")
    for name in _ARRAYS:
        with atomic_write(folder / f"{name}.npy") as temporary, temporary.open("wb") as file:
            np.save(file, getattr(lexical, name), allow_pickle=False)


def open_lexical(folder: Path) -> Lexical:
    """Open a lexical index; its arrays are memory-mapped, in whatever byte order they were written.

    Raises:
        CorruptFileError: a file is missing or torn, or does not belong to the others.
    """
    words = read_parquet(folder / "words.parquet")["word"].to_list()
    try:
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS
        }
        _refuse_strangers(words, **arrays)
    except (OSError, ValueError, EOFError) as error:
        raise CorruptFileError(
            f"{folder}: the lexical index is damaged ({error}). Delete the folder above it; `assay run` "
            "makes it again."
        ) from error
    return Lexical(words, **arrays)


def _refuse_strangers(words: list[str], begins: Any, rows: Any, counts: Any, lengths: Any) -> None:
    if not (len(begins) == len(words) + 1 and begins[-1] == len(rows) == len(counts) and lengths.ndim == 1):
        raise ValueError("its files are not of one index")

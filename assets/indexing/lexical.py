"""The lexical index: which words stand how often in which chunk, on disk as arrays that are memory-mapped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from warehouse.errors import CorruptFileError
from warehouse.parquet import read_parquet, replacing, write_parquet

_WORD = re.compile(r"\w+")
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


def lexical_of(texts: Iterable[str]) -> Lexical:
    """Count the plain words of every text; only numbers are held beside the vocabulary."""
    numbers: dict[str, int] = {}
    tokens: list[npt.NDArray[np.int32]] = []
    for text in texts:
        words = plain_tokens(text)
        tokens.append(np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32))
    lengths = np.array([len(one) for one in tokens], np.int32)
    flat = np.concatenate(tokens) if tokens else np.zeros(0, np.int32)
    words = sorted(numbers)
    place = np.zeros(len(words), np.int64)
    place[[numbers[word] for word in words]] = np.arange(len(words))
    # One number a (word, chunk) pair, so that one sort groups and orders all postings.
    pairs = place[flat] * max(1, len(lengths)) + np.repeat(np.arange(len(lengths)), lengths)
    distinct, counts = np.unique(pairs, return_counts=True)
    begins = np.searchsorted(distinct, np.arange(len(words) + 1) * max(1, len(lengths)))
    rows = (distinct % max(1, len(lengths))).astype(np.int32)
    return Lexical(words, begins.astype(np.int64), rows, counts.astype(np.int32), lengths)


def write_lexical(lexical: Lexical, folder: Path) -> None:
    """Write a lexical index into ``folder``."""
    write_parquet(pl.DataFrame({"word": pl.Series(lexical.words, dtype=pl.String)}), folder / "words.parquet")
    for name in _ARRAYS:
        with replacing(folder / f"{name}.npy") as temporary, temporary.open("wb") as file:
            np.save(file, getattr(lexical, name), allow_pickle=False)


def open_lexical(folder: Path) -> Lexical:
    """Open a lexical index; its arrays are memory-mapped.

    Raises:
        CorruptFileError: a file is missing or torn.
    """
    words = read_parquet(folder / "words.parquet")["word"].to_list()
    try:
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS
        }
    except (OSError, ValueError, EOFError) as error:
        raise CorruptFileError(
            f"{folder}: the lexical index is damaged ({error}). Delete the folder above it; `assay run` "
            "makes it again."
        ) from error
    return Lexical(words, **arrays)

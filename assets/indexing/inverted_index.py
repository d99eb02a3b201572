"""Inverts more texts than memory holds: sorted runs on disk, merged range of words after range of words.

Witten, Moffat and Bell, Managing Gigabytes, 5.2 (sort-based inversion with multiway merging).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from rag_assay.assets.indexing.lexical import NOTHING, Lexical, runs_of, write_lexical
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.parquet import read_parquet, write_parquet

RUN = 4_000_000
"""Postings of a run that is inverted in memory: some 130 MB while it is sorted."""
RANGE = 2_000_000  # postings that are merged at once, unless one word has more: some 70 MB

Ints = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]


class PostingsWriter:
    """Writes a lexical index (`lexical.open_lexical` opens it) range of words after range of words.

    Use it as a context manager: the files appear, whole, when `finish` was called and the block ends.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: list[Places] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._rows = self._stack.enter_context(_Growing(self._folder / "rows.npy"))
        self._counts = self._stack.enter_context(_Growing(self._folder / "counts.npy"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def add(self, sizes: Places, rows: Ints, counts: Ints) -> None:
        """Append the postings of the next words.

        Args:
            sizes: postings of each of these words, shape (words of the range,).
            rows, counts: of all of them, word after word, rows rising in each; shape (sum of sizes,).
        """
        self._sizes.append(sizes.astype(np.int64))
        self._rows.append(rows)
        self._counts.append(counts)

    def finish(self, words: pl.Series, lengths: Ints) -> None:
        """Write the words (sorted, those of all ranges) and the length of every chunk.

        Raises:
            ValueError: other ranges were added than words are named.
        """
        sizes = np.concatenate(self._sizes) if self._sizes else np.zeros(0, np.int64)
        if len(sizes) != len(words):
            raise ValueError(f"{len(sizes)} words have postings, but {len(words)} are named")
        write_parquet(pl.DataFrame({"word": words}), self._folder / "words.parquet")
        begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        for name, array in (("begins", begins), ("lengths", lengths.astype(np.int32))):
            with atomic_write(self._folder / f"{name}.npy") as temporary, temporary.open("wb") as file:
                np.save(file, array, allow_pickle=False)


class _Growing:
    """A one-dimensional .npy file of int32 that grows; its head is written again when its length is known."""

    def __init__(self, path: Path) -> None:
        self._replacing = atomic_write(path)
        self._length = 0

    def __enter__(self) -> Self:
        self._file: IO[bytes] = self._replacing.__enter__().open("wb")
        self._write_head()
        return self

    def append(self, values: Ints) -> None:
        """Append some values."""
        self._length += len(values)
        self._file.write(np.ascontiguousarray(values, np.int32).data)

    def _write_head(self) -> None:
        # NumPy leaves room in the head for any length, so that it never grows.
        head = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False}
        np.lib.format.write_array_header_1_0(self._file, {**head, "shape": (self._length,)})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            self._file.seek(0)
            self._write_head()
        self._replacing.__exit__(kind, error, trace)


def invert(texts: Iterable[str], folder: Path, run: int = RUN, merged: int = RANGE) -> None:
    """Write the lexical index of texts into ``folder``; it is that of `lexical_of`, to the byte.

    Held are the words of the corpus, the length of each text and the postings of one run; the others lie in
    ``folder`` until they are merged.

    Args:
        run: postings of a run; whole blocks of `lexical.BLOCK` texts are taken.
        merged: postings that are merged at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = runs_of(texts, run)
    first, second = next(runs, NOTHING), next(runs, None)
    if second is None:
        write_lexical(first, folder)
        return
    with TemporaryDirectory(prefix=".runs-", dir=folder) as place:
        spilled: list[_Run] = []
        waiting = [second, first]
        del first, second
        while waiting:
            spilled.append(_Run.spill(waiting.pop(), Path(place) / str(len(spilled))))
            waiting = waiting or [one for one in [next(runs, None)] if one is not None]
        _merge(spilled, folder, merged)


@dataclass(frozen=True)
class _Run:
    """A run on disk, and the lengths of its texts."""

    folder: Path
    lengths: Ints

    @classmethod
    def spill(cls, run: Lexical, folder: Path) -> Self:
        write_lexical(run, folder)
        return cls(folder, run.lengths)

    @property
    def words(self) -> pl.Series:
        return read_parquet(self.folder / "words.parquet")["word"]

    @cached_property
    def begins(self) -> Places:
        found: Places = np.load(self.folder / "begins.npy")
        return found

    def part(self, name: str, part: slice) -> Ints:
        """Read some values of an array; pages of a mapped file would count as memory of the process."""
        with (self.folder / f"{name}.npy").open("rb") as file:
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
            file.seek(4 * part.start, 1)
            return np.fromfile(file, np.int32, part.stop - part.start)


def _merge(runs: list[_Run], folder: Path, most: int) -> None:
    """Lay the postings of all runs out by word; those of a word rise, for the runs follow one another."""
    words = pl.concat([run.words for run in runs]).unique().sort()
    numbers = words.to_frame("word").with_row_index("number")
    places = [_places(run.words, numbers) for run in runs]
    sizes = np.zeros(len(words), np.int64)
    for run, place in zip(runs, places, strict=True):
        sizes[place] += np.diff(run.begins)
    with PostingsWriter(folder) as writer:
        for first, last in ranges(sizes, most):
            owners, rows, counts = [], [], []
            for run, place in zip(runs, places, strict=True):
                low, high = np.searchsorted(place, [first, last])
                part = slice(int(run.begins[low]), int(run.begins[high]))
                owners.append(np.repeat(place[low:high], np.diff(run.begins[low : high + 1])))
                rows.append(run.part("rows", part))
                counts.append(run.part("counts", part))
            order = np.argsort(np.concatenate(owners), kind="stable")
            writer.add(sizes[first:last], np.concatenate(rows)[order], np.concatenate(counts)[order])
        writer.finish(words, np.concatenate([run.lengths for run in runs]))


def _places(words: pl.Series, numbers: pl.DataFrame) -> Places:
    """Return the number of each word of a run among all words; they rise as the words do."""
    found = words.to_frame("word").join(numbers, on="word", how="left", maintain_order="left")["number"]
    return found.to_numpy().astype(np.int64)


def ranges(sizes: Places, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of words (first, one after the last) of at most ``most`` postings, or of one word.

    >>> list(ranges(np.array([2, 1, 9, 1, 1, 3]), 4))
    [(0, 2), (2, 3), (3, 5), (5, 6)]
    """
    ends = np.cumsum(sizes)
    first, before = 0, 0
    while first < len(sizes):
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, last
        first, before = last, int(ends[last - 1])

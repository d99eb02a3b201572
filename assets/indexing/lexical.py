"""The lexical index: postings of words in chunks, stored as memory-mapped arrays."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
import polars as pl

from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.parquet import read_parquet, write_parquet

if TYPE_CHECKING:
    import numpy.typing as npt


def release_pages(array: npt.NDArray[Any]) -> None:
    """Release the pages of a mapped file that were read, which count as memory of the process."""
    mapped = getattr(array, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


BLOCK = 8_192
MANY = 8_000_000  # postings of which those that were read are worth letting go of: 64 MB
_ARRAYS = ("begins", "rows", "counts", "lengths")


@dataclass(frozen=True)
class Lexical:
    """Postings of the words of a corpus: a word-by-chunk matrix of counts, in compressed rows.

    words: sorted, each once
    begins: of each word's postings, and their total; shape (words + 1,)
    rows, counts: positions of chunks, ascending for each word, and occurrences in them; shape (postings,)
    lengths: words of each chunk; shape (chunks,)
    """

    words: list[str]
    begins: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def postings(self, word: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        number = self.numbers.get(word)
        if number is None:
            return self.rows[:0], self.counts[:0]
        part = slice(int(self.begins[number]), int(self.begins[number + 1]))
        return self.rows[part], self.counts[part]

    def release_pages(self) -> None:
        if len(self.rows) > MANY:
            release_pages(self.rows)
            release_pages(self.counts)


def _nothing() -> Lexical:
    """The lexical index of no text."""
    return Lexical([], np.zeros(1, np.int64), *(np.zeros((3, 0), np.int32)))


def lexical_of(texts: Iterable[str]) -> Lexical:
    """Count the plain words of texts in memory; `assets.indexing.lexical.invert` does it on disk."""
    return next(runs_of(texts, None), None) or _nothing()


def runs_of(texts: Iterable[str], most: int | None) -> Iterator[Lexical]:
    """Count the plain words of texts, in runs of about ``most`` postings (None: one run)."""
    unread, first = iter(texts), 0
    rest = iter(lambda: list(islice(unread, BLOCK)), [])
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


class _Block(NamedTuple):
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
    write_parquet(pl.DataFrame({"word": pl.Series(lexical.words, dtype=pl.String)}), folder / "words.parquet")
    _save(folder, **{name: getattr(lexical, name) for name in _ARRAYS})


def _save(folder: Path, **arrays: npt.NDArray[Any]) -> None:
    for name, array in arrays.items():
        with atomic_write(folder / f"{name}.npy") as temporary, temporary.open("wb") as file:
            np.save(file, array, allow_pickle=False)


def open_lexical(folder: Path) -> Lexical:
    """Open a lexical index; arrays are memory-mapped. Raises CorruptFileError."""
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


RUN = 4_000_000
"""Postings of a run that is inverted in memory: some 130 MB while it is sorted."""
RANGE = 2_000_000  # postings that are merged at once, unless one word has more: some 70 MB

Ints: TypeAlias = "npt.NDArray[np.int32]"
Places: TypeAlias = "npt.NDArray[np.int64]"


class PostingsWriter(ExitStack):
    """Writes a lexical index (for `open_lexical`), one range of words after the other. A context manager: the
    files appear when `finish` was called and the block ends.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._sizes: list[Places] = []

    def __enter__(self) -> Self:
        self._add_rows = self.enter_context(_growing(self._folder / "rows.npy"))
        self._add_counts = self.enter_context(_growing(self._folder / "counts.npy"))
        return self

    def add(self, sizes: Places, rows: Ints, counts: Ints) -> None:
        """Append the postings of the next words, rows ascending for each; shape (sum of sizes,)."""
        self._sizes.append(sizes.astype(np.int64))
        self._add_rows(rows)
        self._add_counts(counts)

    def finish(self, words: pl.Series, lengths: Ints) -> None:
        sizes = np.concatenate(self._sizes) if self._sizes else np.zeros(0, np.int64)
        if len(sizes) != len(words):
            raise ValueError(f"{len(sizes)} words have postings, but {len(words)} are named")
        write_parquet(pl.DataFrame({"word": words}), self._folder / "words.parquet")
        begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        _save(self._folder, begins=begins, lengths=lengths.astype(np.int32))


@contextmanager
def _growing(path: Path) -> Iterator[Callable[[Ints], None]]:
    """Yield a function that appends to a one-dimensional .npy file of int32."""
    length = 0

    def append(values: Ints) -> None:
        nonlocal length
        length += len(values)
        file.write(np.ascontiguousarray(values, np.int32).data)

    with atomic_write(path) as temporary, temporary.open("wb") as file:
        write_npy_head(file, np.int32, (0,))
        yield append
        file.seek(0)  # NumPy leaves room in the head for any length, so that it never grows
        write_npy_head(file, np.int32, (length,))


def write_npy_head(file: IO[bytes], kind: type[np.generic], shape: tuple[int, ...]) -> None:
    head = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, head)


def invert(texts: Iterable[str], folder: Path, run: int = RUN, merged: int = RANGE) -> None:
    """Write the lexical index of texts into ``folder``, byte for byte that of `lexical_of`."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = runs_of(texts, run)
    first, second = next(runs, None) or _nothing(), next(runs, None)
    if second is None:
        write_lexical(first, folder)
        return
    with TemporaryDirectory(prefix=".runs-", dir=folder) as place:
        spilled: list[_Run] = []
        waiting = [second, first]
        del first, second
        while waiting:
            run_folder, spilt = Path(place) / str(len(spilled)), waiting.pop()
            write_lexical(spilt, run_folder)
            spilled.append(_Run(run_folder, spilt.lengths))
            del spilt
            waiting = waiting or [one for one in [next(runs, None)] if one is not None]
        _merge(spilled, folder, merged)


@dataclass(frozen=True)
class _Run:
    folder: Path
    lengths: Ints

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

"""The vector cache: a text is embedded once for each embedder revision.

One folder an embedder revision, holding Parquet segments that are written whole and never changed, so that
any number of processes may add and read at once, and a kill loses at most the segment being written. Which
segment holds which text is read from the column of hashes alone, once a segment; vectors are read a row group
at a time. Many small segments are joined into few (`compact`) while others read and write.
"""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from warehouse.errors import AssayError
from warehouse.parquet import sweep
from warehouse.paths import Home
from warehouse.segments import (
    UNKNOWN,
    GoneError,
    opened,
    read_distinct,
    read_hashes,
    read_rows,
    segment,
    width_of,
    write,
)

Matrix = npt.NDArray[np.float32]

LARGE = 16_384  # vectors: a segment of as many is joined no further
MANY = 32  # small segments that there must be before some are joined

_ENTRIES: dict[str, Any] = {"key": pl.UInt64, "segment": pl.UInt32, "row": pl.UInt32, "tokens": pl.Int32}


class Found(NamedTuple):
    """What the cache holds of some texts, in their order.

    vectors: float32, shape (texts, dimensions), zeros where there is none; shape (texts, 0) if all lack one
    known: bool, shape (texts,)
    """

    vectors: Matrix
    known: npt.NDArray[np.bool_]


class VectorCache:
    """Vectors of one embedder revision, by the SHA-256 of the embedded text.

    The index of what is there takes some 20 bytes a vector. One object serves one thread.

    Args:
        home: the home folder.
        revision: digest of the weights and of everything else that changes a vector.
    """

    def __init__(self, home: Home, revision: str) -> None:
        self.folder = home.cache("vectors") / revision
        self._numbers: dict[str, int] = {}  # file name -> its number in the index
        self._names: list[str] = []
        self._entries = pl.DataFrame(schema=_ENTRIES)
        self._width: int | None = None  # numbers in a vector, once that is known

    def __len__(self) -> int:
        """Return how many vectors were there at the last look."""
        return len(self._entries)

    def get(self, hashes: Sequence[str]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the vectors (float32, one dimension) that are there, by hash."""
        distinct = list(dict.fromkeys(hashes))
        found = self.take(distinct)
        return {key: found.vectors[row] for row, key in enumerate(distinct) if found.known[row]}

    def take(self, hashes: Sequence[str]) -> Found:
        """Return vectors in the order of ``hashes``; those that another process has just added too."""
        self.refresh()
        while True:
            places = self._places(hashes)
            try:
                return self._read(hashes, places)
            except GoneError as gone:  # damaged and put aside, or joined into another by another process
                self._forget(gone.name)
                self.refresh()

    def tokens(self, hashes: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the tokens stored with each text, shape (texts,): `UNKNOWN` where none are, or no vector."""
        counts = self._places(hashes)["tokens"].fill_null(UNKNOWN).to_numpy()
        return counts.astype(np.int32)

    def has(self, hashes: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Say for each text whether its vector is there, as of the last `refresh`; shape (texts,)."""
        return self._places(hashes)["segment"].is_not_null().to_numpy()

    def put(
        self, hashes: Sequence[str], vectors: Matrix, tokens: npt.NDArray[np.int32] | None = None
    ) -> None:
        """Add vectors, float32, shape (len(hashes), dimensions), as one segment.

        tokens: how long each text is, special tokens included, shape (len(hashes),), where that was counted

        Raises:
            AssayError: the vectors that are there have another number of dimensions.
        """
        if vectors.ndim != 2 or len(vectors) != len(hashes):
            raise ValueError(f"expected {len(hashes)} vectors, got an array of shape {vectors.shape}")
        if not len(hashes):
            return
        self._refuse_width(int(vectors.shape[1]))
        counts = np.full(len(hashes), UNKNOWN, np.int32) if tokens is None else tokens
        name = f"{uuid.uuid4().hex}.parquet"
        rows = segment(pl.Series(hashes, dtype=pl.String), vectors, counts)
        write(self.folder / name, iter([rows]))
        self._add({name: rows})

    def refresh(self) -> None:
        """Look which segments have come and gone; only the hashes of new ones are read."""
        there = {path.name for path in self.folder.glob("*.parquet")}
        for name in set(self._numbers) - there:
            self._forget(name)
        new: dict[str, pl.DataFrame] = {}
        for name in sorted(there - set(self._numbers)):
            with suppress(GoneError):
                new[name] = read_hashes(self.folder / name)
        self._add(new)

    def compact(self) -> int:
        """Join small segments into large ones, a text once; return how many segments went.

        What processes that were killed while they wrote have left is removed after a day.

        Readers that hold the old ones look again and find the new one, which is there before they go. One
        process joins at a time; a second one does nothing. A kill leaves both, and the next call tidies up.
        """
        sweep(self.folder)
        small = [name for name, rows in self._sizes().items() if rows < LARGE]
        if len(small) < MANY:
            return 0
        with self._lock("compacting", wait=False) as held:
            return self._join(small) if held else 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn to compute vectors of this revision, so that no two processes compute the same.

        A killed process gives its turn away. What others have added meanwhile is known afterwards.
        """
        with self._lock("computing", wait=True):
            self.refresh()
            yield

    @contextmanager
    def _lock(self, name: str, *, wait: bool) -> Iterator[bool]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f".{name}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    # The index ---------------------------------------------------------------------------------------------

    def _add(self, segments: dict[str, pl.DataFrame]) -> None:
        """Take in the hashes and tokens of segments, by file name."""
        parts = [self._entries]
        for name, rows in segments.items():
            number = self._numbers.setdefault(name, len(self._names))
            if number == len(self._names):
                self._names.append(name)
            columns = {
                "key": rows["sha256"].hash(),
                "segment": np.full(len(rows), number, np.uint32),
                "row": np.arange(len(rows), dtype=np.uint32),
                "tokens": rows["tokens"],
            }
            parts.append(pl.DataFrame(columns, schema=_ENTRIES))
        if segments:
            self._entries = pl.concat(parts).unique("key", keep="last", maintain_order=False)

    def _forget(self, name: str) -> None:
        number = self._numbers.pop(name, None)
        if number is not None:
            self._entries = self._entries.filter(pl.col("segment") != number)

    def _places(self, hashes: Sequence[str]) -> pl.DataFrame:
        """Return segment, row and tokens of each text in its order, NULL where it is not there."""
        wanted = pl.DataFrame({"key": pl.Series(hashes, dtype=pl.String).hash()}, schema={"key": pl.UInt64})
        return wanted.join(self._entries, on="key", how="left", maintain_order="left")

    # Segments ----------------------------------------------------------------------------------------------

    def _refuse_width(self, width: int) -> None:
        """Raise where the vectors that are there have another number of dimensions than ``width``."""
        for name in self._names if self._width is None else ():
            with suppress(GoneError), opened(self.folder / name) as file:
                self._width = width_of(file.schema_arrow)
                break
        if self._width is None:
            self._width = width
        if self._width != width:
            raise AssayError(
                f"{self.folder}: holds vectors of {self._width} numbers, and now one of {width} came: "
                "another model answers under the same name. Give it another name, or delete that folder"
            )

    def _read(self, hashes: Sequence[str], places: pl.DataFrame) -> Found:
        known = places["segment"].is_not_null().to_numpy()
        result: Matrix | None = None
        wanted = places.select("segment", "row").with_row_index("at").drop_nulls()
        for (number,), part in wanted.group_by(["segment"], maintain_order=True):
            name = self._names[int(number)]
            keys = [hashes[at] for at in part["at"].to_list()]
            vectors, right = read_rows(self.folder / name, part["row"].to_numpy(), keys)
            if result is None:
                result = np.zeros((len(hashes), vectors.shape[1]), np.float32)
            self._refuse_width(int(vectors.shape[1]))
            at = part["at"].to_numpy()
            result[at[right]] = vectors[right]
            known[at[~right]] = False  # another text with the same short key: as good as not there
        return Found(result if result is not None else np.zeros((len(hashes), 0), np.float32), known)

    def _sizes(self) -> dict[str, int]:
        """Return the rows of each segment that is there, by name."""
        self.refresh()
        sizes = {}
        for name in sorted(self._numbers):
            with suppress(GoneError), opened(self.folder / name) as file:
                sizes[name] = int(file.metadata.num_rows)
        return sizes

    def _join(self, names: list[str]) -> int:
        joined, group, rows = 0, list[str](), 0
        for name in names:
            with suppress(GoneError), opened(self.folder / name) as file:
                rows += file.metadata.num_rows
                group.append(name)
            if rows >= LARGE:
                joined += self._merge(group)
                group, rows = [], 0
        return joined + self._merge(group)

    def _merge(self, names: list[str]) -> int:
        """Write the rows of some segments into one, then remove them."""
        if len(names) < 2:
            return 0
        target = self.folder / f"{uuid.uuid4().hex}.parquet"
        try:
            write(target, read_distinct([self.folder / name for name in names]))
        except GoneError:  # damaged since they were counted: the next call goes on without it
            return 0
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        self.refresh()
        return len(names)

"""The vector cache: a text is embedded once for each embedder revision.

One folder a revision, of immutable segments, so that processes may add and read at once. Small ones are
joined; a shard of FULL vectors is divided by the next hex digit of the texts' SHA-256.
"""

from __future__ import annotations

import fcntl
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_assay.warehouse.atomic_write import sweep
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.locks import locked, try_lock
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.segments import (
    UNKNOWN,
    Counts,
    Keys,
    Matrix,
    Places,
    SegmentGoneError,
    VectorRows,
    VectorSegment,
    bounds,
    digests_of,
    join_rows,
    keys_of,
    open_segment,
    read_name,
    seed_of,
    write,
)

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

PATTERN = ".claim-*"


@contextmanager
def claim_texts(folder: Path, hashes: Sequence[str]) -> Iterator[npt.NDArray[np.bool_]]:
    """Claim texts while the block lasts; yield which of them no other process has claimed, shape (texts,)."""
    path = folder / f".claim-{uuid.uuid4().hex}"
    with locked(folder / ".claiming.lock") as locks:
        taken = {one for claim in folder.glob(PATTERN) for one in _listed(claim)} if locks else set[str]()
        mine = np.array([name not in taken for name in hashes], np.bool_)
        listed = "\n".join(name for name, own in zip(hashes, mine.tolist(), strict=True) if own)
        file = path.open("w")
        if locks:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(listed)
            file.flush()
    try:
        yield mine
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _listed(claim: Path) -> list[str]:
    with suppress(FileNotFoundError), claim.open("r+") as file:
        if try_lock(file.fileno()) is False:
            return file.read().split()
        with suppress(FileNotFoundError):
            claim.unlink()
    return []


LARGE = 65_536  # vectors a segment, as nearly as equal parts can have
# Small segments, of less than half of LARGE, of what no shard has divided yet before they are joined
MANY = 32
FEW = 4  # the same of a shard, which no put adds to: what a division has left
FULL = 4 * LARGE  # vectors of a shard before it is divided by the next digit
HELD = 64_000_000  # bytes of indexes of segments that an object keeps in memory (5 million vectors)
DIGITS = "0123456789abcdef"
DEEPEST = 8  # digits: what goes beyond holds 70 billion texts, or the same ones repeatedly


class CachedVectors(NamedTuple):
    """Vectors of texts: float32, shape (texts, dimensions) or (texts, 0); which are known: shape (texts,)."""

    vectors: Matrix
    known: npt.NDArray[np.bool_]


Mask: TypeAlias = "npt.NDArray[np.bool_]"
# Of texts at rows of a segment: which need no other one
_Read = Callable[[VectorSegment, Places, Places], Mask]


class VectorCache:
    """Vectors of one embedder ``revision``, by the SHA-256 of the embedded text. Not thread-safe."""

    def __init__(self, home: Home, revision: str) -> None:
        self.folder = home.cache("vectors") / revision
        self._place = f"cache/vectors/{revision}"
        self._mirror = mirror_of(home)
        self._seed = seed_of(revision)
        self._shards: dict[str, dict[str, int]] = {}  # shard -> name of a segment -> its rows
        self._held: OrderedDict[str, VectorSegment] = OrderedDict()
        self._bytes = 0
        self._width: int | None = None  # numbers in a vector, once that is known

    def __len__(self) -> int:
        return sum(sum(names.values()) for names in self._shards.values())

    def get(self, hashes: Sequence[str]) -> dict[str, npt.NDArray[np.float32]]:
        distinct = list(dict.fromkeys(hashes))
        found = self.take(distinct)
        return {key: found.vectors[row] for row, key in enumerate(distinct) if found.known[row]}

    def take(self, hashes: Sequence[str]) -> CachedVectors:
        """Return vectors in the order of ``hashes``; those that another process has just added too."""
        self.refresh()
        digests = digests_of(hashes)
        known = np.zeros(len(hashes), np.bool_)
        vectors = np.zeros((len(hashes), 0), np.float32)

        def read(segment: VectorSegment, at: Places, rows: Places) -> Mask:
            nonlocal vectors
            part, right = segment.read(rows, digests[at])
            if not known.any():
                vectors = np.zeros((len(hashes), segment.width), np.float32)
            vectors[at[right]], known[at[right]] = part[right], True
            return right

        self._look(keys_of(digests), read)
        return CachedVectors(vectors if known.any() else np.zeros((len(hashes), 0), np.float32), known)

    def tokens(self, hashes: Sequence[str]) -> Counts:
        """Return the tokens stored with each text, shape (texts,): `UNKNOWN` where none are, or no vector."""
        counts = np.full(len(hashes), UNKNOWN, np.int32)

        def read(segment: VectorSegment, at: Places, rows: Places) -> Mask:
            counts[at] = segment.tokens[rows]
            return counts[at] != UNKNOWN

        self._look(keys_of(digests_of(hashes)), read)
        return counts

    def has(self, hashes: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which texts have a vector, as of the last `refresh`, shape (texts,)."""
        known = np.zeros(len(hashes), np.bool_)

        def read(_segment: VectorSegment, at: Places, _rows: Places) -> Mask:
            known[at] = True
            return known[at]

        self._look(keys_of(digests_of(hashes)), read)
        return known

    def put(self, hashes: Sequence[str], vectors: Matrix, tokens: Counts | None = None) -> None:
        """vectors: float32, shape (len(hashes), dimensions); tokens: of each text, special ones too"""
        if vectors.ndim != 2 or len(vectors) != len(hashes):
            raise ValueError(f"expected {len(hashes)} vectors, got an array of shape {vectors.shape}")
        if not len(hashes):
            return
        self._refuse_width(int(vectors.shape[1]))
        counts = np.full(len(hashes), UNKNOWN, np.int32) if tokens is None else tokens
        self._write("", VectorRows(digests_of(hashes), vectors, counts).sorted_once())
        if self._untidy(""):
            self.compact()

    def refresh(self) -> None:
        shards: dict[str, dict[str, int]] = defaultdict(dict)
        for path in self.folder.glob("[!.]*"):
            if told := read_name(path.name):
                shards[told.shard][path.name] = told.rows
        self._shards = dict(shards)
        there = {name for names in shards.values() for name in names}
        for name in [name for name in self._held if name not in there]:
            self._forget(name)

    def compact(self) -> int:
        sweep(self.folder)
        self.refresh()
        before = {name for names in self._shards.values() for name in names}
        went = self._tidy()
        if went and self._mirror:
            self._mirror.push(self._place)
            gone = before.difference(*self._shards.values())
            self._mirror.store.delete(f"{self._place}/{name}" for name in gone)
        return went

    def _tidy(self) -> int:
        went, todo = 0, sorted(self._shards)
        while todo:
            shard = todo.pop()
            if not self._untidy(shard):
                continue
            with locked(self.folder / f".{shard or 'all'}.lock", wait=False) as held:
                if held is False:
                    continue
                self.refresh()
                divides = self._is_full(shard)
                # Damaged or tidied by another: a later call goes on without it
                with suppress(SegmentGoneError):
                    went += self._divide(shard) if divides else self._join(shard)
                    todo += [shard + digit for digit in DIGITS] if divides else []
        return went

    @contextmanager
    def claim(self, hashes: Sequence[str]) -> Iterator[Mask]:
        """Claim texts that will be put; a killed process gives its claims away."""
        with claim_texts(self.folder, hashes) as mine:
            if self._mirror:
                self._mirror.pull(self._place, once=True)
            self.refresh()
            try:
                yield mine
            finally:
                if self._mirror:
                    self._mirror.push(self._place)

    def wait_for(self, hashes: Sequence[str]) -> None:
        wanted = set(hashes)
        for claim in self.folder.glob(PATTERN):
            with suppress(FileNotFoundError), claim.open("r+") as file:
                if not wanted.isdisjoint(file.read().split()):
                    with suppress(OSError):  # no locks: nothing to wait for
                        fcntl.flock(file, fcntl.LOCK_EX)

    # Looking -----------------------------------------------------------------------------------------------

    def _look(self, keys: Keys, read: _Read) -> None:
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        wanted = np.ones(len(keys), np.bool_)
        while True:
            gone = False
            for shard, names in list(self._shards.items()):
                least, greatest = bounds(shard)
                first, end = np.searchsorted(ranked, least), np.searchsorted(ranked, greatest, side="right")
                for name in list(names) if first < end else ():
                    at = np.flatnonzero(wanted[first:end]) + first
                    if not len(at):
                        break
                    try:
                        segment = self._segment(name)
                        rows = segment.find(ranked[at])
                        there = rows >= 0
                        if there.any():
                            wanted[at[there]] = ~read(segment, order[at[there]], rows[there])
                    except SegmentGoneError:
                        gone = True
                        self._forget(name)
            if not gone:
                return
            self.refresh()

    def _segment(self, name: str) -> VectorSegment:
        segment = self._held.pop(name, None)
        if segment is None:
            segment = open_segment(self.folder / name, self._seed)
            self._width = self._width or segment.width
            self._refuse_width(segment.width)
            self._bytes += segment.size
        self._held[name] = segment
        while self._bytes > HELD and len(self._held) > 1:
            self._bytes -= self._held.popitem(last=False)[1].size
        return segment

    def _forget(self, name: str) -> None:
        segment = self._held.pop(name, None)
        self._bytes -= segment.size if segment else 0
        for names in self._shards.values():
            names.pop(name, None)

    def _refuse_width(self, width: int) -> None:
        if self._width is None:
            self.refresh()
            self._width = width
            for name in [name for names in self._shards.values() for name in names]:
                with suppress(SegmentGoneError):
                    self._width = open_segment(self.folder / name, self._seed).width
                    break
        if self._width != width:
            raise AssayError(
                f"{self.folder}: holds vectors of {self._width} numbers, and now one of {width} came: "
                "another model answers under the same name. Give it another name, or delete that folder"
            )

    # Writing -----------------------------------------------------------------------------------------------

    def _write(self, shard: str, rows: VectorRows) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        count = len(rows.tokens)
        cuts = np.linspace(0, count, max(1, round(count / LARGE)) + 1).astype(int).tolist()
        for first, end in pairwise(cuts):
            part = rows.between(first, end)
            name = write(self.folder, shard, part, self._seed)
            self._shards.setdefault(shard, {})[name] = len(part.tokens)

    def _small(self, shard: str) -> list[str]:
        return sorted(name for name, rows in self._shards.get(shard, {}).items() if 2 * rows < LARGE)

    def _is_full(self, shard: str) -> bool:
        return len(shard) < DEEPEST and sum(self._shards.get(shard, {}).values()) >= FULL

    def _untidy(self, shard: str) -> bool:
        return self._is_full(shard) or len(self._small(shard)) >= (FEW if shard else MANY)

    def _remove(self, names: Sequence[str]) -> int:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
            self._forget(name)
        return len(names)

    def _join(self, shard: str) -> int:
        went, group, rows = 0, list[str](), 0
        for name in self._small(shard):
            group.append(name)
            rows += self._shards[shard][name]
            if rows >= LARGE:
                went += self._merge(shard, group)
                group, rows = [], 0
        return went + (self._merge(shard, group) if len(group) > 1 else 0)

    def _merge(self, shard: str, names: list[str]) -> int:
        parts = [open_segment(self.folder / name, self._seed) for name in names]
        self._write(shard, join_rows([part.part(0, len(part.keys)) for part in parts]))
        return self._remove(names)

    def _divide(self, shard: str) -> int:
        names = list(self._shards[shard])
        parents = [open_segment(self.folder / name, self._seed) for name in names]
        for digit in DIGITS:
            least, greatest = bounds(shard + digit)
            parts = []
            for parent in parents:
                first = int(np.searchsorted(parent.keys, least))
                end = int(np.searchsorted(parent.keys, greatest, side="right"))
                if first < end:
                    parts.append(parent.part(first, end))
            if parts:
                self._write(shard + digit, join_rows(parts))
        return self._remove(names)

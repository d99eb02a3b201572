"""Segments of the vector cache: immutable files of vectors, sorted by the SHA-256 of their texts.

A header (`HEADER`), the index (the first 64 bits of each SHA-256, rising, and the tokens of each text), then
one record a text: its SHA-256, its vector, and a CRC-32 of both. Checksums begin with that of the embedder's
revision. The name is `SHARD.ORDER.ROWS.vectors`: the leading hex digits that all texts share; a rising order.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import re
import struct
import time
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_assay.warehouse.atomic_write import atomic_write

Matrix: TypeAlias = "npt.NDArray[np.float32]"
Keys: TypeAlias = "npt.NDArray[np.uint64]"
Counts: TypeAlias = "npt.NDArray[np.int32]"
Places: TypeAlias = "npt.NDArray[np.intp]"
Digests: TypeAlias = "npt.NDArray[np.uint8]"  # shape (texts, 32)
log = logging.getLogger(__name__)

UNKNOWN = -1  # tokens of a text that were not counted
SUFFIX = ".vectors"
MAGIC = b"assayvec"
HEADER = struct.Struct("<8sQII")  # magic, rows, numbers in a vector, CRC-32 of these and of the index
INDEXED = 12  # bytes of the index a row
_NAME = re.compile(r"(all|[0-9a-f]+)\.[0-9a-f]{24}\.(\d+)\.vectors")
_number = itertools.count()


class SegmentGoneError(Exception):
    """A segment is not there any longer: joined into another one, or damaged and put aside."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


class Name(NamedTuple):
    """What the name of a segment tells."""

    shard: str
    rows: int


def read_name(name: str) -> Name | None:
    """Return what the name of a file tells; None where it is no segment's.

    >>> read_name("3f.0123456789abcdef01234567.16384.vectors")
    Name(shard='3f', rows=16384)
    >>> read_name("all.0123456789abcdef01234567.1.vectors")
    Name(shard='', rows=1)
    """
    found = _NAME.fullmatch(name)
    return Name("" if found[1] == "all" else found[1], int(found[2])) if found else None


def digests_of(hashes: Sequence[str]) -> Digests:
    """Return SHA-256 hex digits as bytes, shape (texts, 32)."""
    return np.frombuffer(bytes.fromhex("".join(hashes)), np.uint8).reshape(len(hashes), 32)


def keys_of(digests: Digests) -> Keys:
    """Return the first 64 bits of each SHA-256 as numbers that sort as the digits do, shape (texts,)."""
    return np.ascontiguousarray(digests[:, :8]).view(">u8").reshape(-1).astype(np.uint64)


def bounds(shard: str) -> tuple[np.uint64, np.uint64]:
    """Return the least and the greatest key of a shard.

    >>> [f"{key:016x}" for key in bounds("3f")]
    ['3f00000000000000', '3fffffffffffffff']
    """
    digits = shard[:16]
    return np.uint64(int(digits.ljust(16, "0"), 16)), np.uint64(int(digits.ljust(16, "f"), 16))


class VectorRows(NamedTuple):
    """Texts with their vectors, in one order; shapes (texts, 32), (texts, dimensions), (texts,)."""

    digests: Digests
    vectors: Matrix
    tokens: Counts

    def between(self, first: int, end: int) -> VectorRows:
        return VectorRows(self.digests[first:end], self.vectors[first:end], self.tokens[first:end])

    def sorted_once(self) -> VectorRows:
        """Return each text once, the first of equal ones, in the order of the SHA-256."""
        whole = np.ascontiguousarray(self.digests).view("V32").reshape(-1)
        _, first = np.unique(whole, return_index=True)
        return VectorRows(self.digests[first], self.vectors[first], self.tokens[first])


def join_rows(parts: Sequence[VectorRows]) -> VectorRows:
    digests, vectors, tokens = (np.concatenate([part[n] for part in parts]) for n in range(3))
    return VectorRows(digests, vectors, tokens).sorted_once()


def seed_of(revision: str) -> int:
    return zlib.crc32(revision.encode())


@cache
def _record(width: int) -> np.dtype[Any]:
    return np.dtype([("sha256", "u1", (32,)), ("vector", "<f4", (width,)), ("crc", "<u4")])


def write(folder: Path, shard: str, rows: VectorRows, seed: int) -> str:
    count, width = rows.vectors.shape
    records = np.zeros(count, _record(width))
    records["sha256"], records["vector"] = rows.digests, rows.vectors
    plain, size = records.view(np.uint8).data, records.itemsize
    records["crc"] = [zlib.crc32(plain[at : at + size - 4], seed) for at in range(0, count * size, size)]
    index = keys_of(rows.digests).astype("<u8").tobytes() + rows.tokens.astype("<i4").tobytes()
    head = HEADER.pack(MAGIC, count, width, 0)[:-4]
    crc = zlib.crc32(index, zlib.crc32(head, seed))
    number = next(_number) & 0xFF  # files of one clock tick are in order too
    order = f"{time.time_ns():016x}{number:02x}{uuid.uuid4().hex[:6]}"
    name = f"{shard or 'all'}.{order}.{count}{SUFFIX}"
    with atomic_write(folder / name) as temporary, temporary.open("wb") as file:
        file.write(HEADER.pack(MAGIC, count, width, crc))
        file.write(index)
        file.write(plain)
    return name


@dataclass(frozen=True)
class VectorSegment:
    """The index of a segment, 12 bytes a text. Vectors, of ``width`` numbers, are read when wanted."""

    path: Path
    keys: Keys
    tokens: Counts
    width: int
    seed: int

    @property
    def size(self) -> int:
        return INDEXED * len(self.keys)

    def find(self, keys: Keys) -> Places:
        rows = np.searchsorted(self.keys, keys)
        there = self.keys[np.minimum(rows, len(self.keys) - 1)] == keys
        return np.where(there, rows, -1)

    def read(self, rows: Places, digests: Digests) -> tuple[Matrix, npt.NDArray[np.bool_]]:
        """Read vectors, shape (rows, dimensions), and which of them are of ``digests``."""
        with _guarded(self.path), open(self.path, "rb", 0) as file:  # noqa: PTH123 -- twice as quick
            records = self._records(file.fileno(), rows)
            right = (records["sha256"] == digests).all(axis=1)
            vectors = records["vector"]
            if right.all():
                return vectors, right
            wanted, at = np.flatnonzero(~right), rows[~right]
            while True:  # another text with the same short key: look at the next row, where that has it too
                wanted, at = wanted[at + 1 < len(self.keys)], at[at + 1 < len(self.keys)] + 1
                alike = self.keys[at] == self.keys[at - 1]
                wanted, at = wanted[alike], at[alike]
                if not len(at):
                    break
                records = self._records(file.fileno(), at)
                same = (records["sha256"] == digests[wanted]).all(axis=1)
                vectors[wanted[same]] = records["vector"][same]
                right[wanted[same]] = True
                wanted, at = wanted[~same], at[~same]
        return vectors, right

    def part(self, first: int, end: int) -> VectorRows:
        with _guarded(self.path), self.path.open("rb", buffering=0) as file:
            records = self._records(file.fileno(), np.arange(first, end))
        return VectorRows(records["sha256"], records["vector"], self.tokens[first:end])

    def _records(self, handle: int, rows: Places) -> Any:
        kind = _record(self.width)
        records = np.empty(len(rows), kind)
        plain, size = records.view(np.uint8).data, kind.itemsize
        begin = HEADER.size + INDEXED * len(self.keys)
        breaks = np.flatnonzero(rows[1:] - rows[:-1] != 1) + 1
        for first, end in pairwise([0, *breaks.tolist(), len(rows)]):
            part = plain[first * size : end * size]
            if os.preadv(handle, [part], begin + int(rows[first]) * size) != len(part):
                raise ValueError("it ends too early")
        sums = [zlib.crc32(plain[at : at + size - 4], self.seed) for at in range(0, len(plain), size)]
        if sums != records["crc"].tolist():
            raise ValueError("a checksum does not hold")
        return records


def open_segment(path: Path, seed: int) -> VectorSegment:
    with _guarded(path), path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEADER.size)
        if len(head) != HEADER.size:
            raise ValueError("it ends too early")
        magic, count, width, crc = HEADER.unpack(head)
        whole = HEADER.size + count * (INDEXED + _record(0).itemsize + 4 * width)
        if magic != MAGIC or not count or size != whole:
            raise ValueError("no segment, or torn")
        index = file.read(INDEXED * count)
        if zlib.crc32(index, zlib.crc32(head[:-4], seed)) != crc:
            raise ValueError("a checksum does not hold, or it is of another revision")
        keys = np.frombuffer(index, "<u8", count).astype(np.uint64)
        tokens = np.frombuffer(index, "<i4", count, 8 * count).astype(np.int32)
        return VectorSegment(path, keys, tokens, width, seed)


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", errno.EIO)  # what is wrong with the content has none
        if number == errno.EIO:  # a bad block of the disk is damage too
            log.warning("%s is damaged and was moved aside (%s)", path, error)
            with suppress(FileNotFoundError):  # another process has put it aside
                path.rename(path.with_suffix(".damaged"))
        elif number not in {errno.ENOENT, errno.ESTALE}:
            raise
        raise SegmentGoneError(path.name) from error

"""Packs: files of blocks of many small bodies, each found by its SHA-256; damaged blocks are passed over."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

SMALL = 16_384  # bytes of a body up to which it goes into a pack
BLOCK = 32_768  # bytes of the bodies of a block: what is unpacked for the sake of one
SUFFIX = ".pack"

_MAGIC = b"\x89RAP"
_HEAD = struct.Struct("<4sIIII")  # magic, bodies, their bytes, bytes packed, CRC-32 of these and the table
_ENTRY = [("sha256", "V32"), ("size", "<u4")]
_ENTRY_SIZE = 36  # bytes
_PLACE = [("key", "<u8"), ("pack", "<u4"), ("at", "<u8"), ("begin", "<u4"), ("size", "<u4")]


class PackWriter:
    """Adds bodies to a new pack; its file is there from the first full block on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bodies: dict[str, bytes] = {}
        self._size = 0
        self._file: IO[bytes] | None = None
        self._written: set[str] = set()

    @property
    def waiting(self) -> bool:
        return bool(self._bodies)

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._bodies or sha256 in self._written

    def add(self, sha256: str, body: bytes) -> None:
        self._bodies[sha256] = body
        self._size += len(body)
        if self._size >= BLOCK:
            self.flush()

    def flush(self) -> None:
        if not self._bodies:
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
        self._file.write(_block(self._bodies))
        self._file.flush()
        self._written |= self._bodies.keys()
        self._bodies, self._size = {}, 0

    def sync(self) -> None:
        self.flush()
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()


def _block(bodies: dict[str, bytes]) -> bytes:
    table = np.array([(bytes.fromhex(key), len(body)) for key, body in bodies.items()], _ENTRY).tobytes()
    raw = b"".join(bodies.values())
    packed = zlib.compress(raw, 6)
    sizes = len(bodies), len(raw), len(packed)
    return _HEAD.pack(_MAGIC, *sizes, _sum(*sizes, table)) + table + packed


def _sum(number: int, size: int, packed: int, table: bytes) -> int:
    return zlib.crc32(table, zlib.crc32(struct.pack("<III", number, size, packed)))


# ------------------------------------------------------------------------------------------- reading


class _Block(NamedTuple):
    at: int
    end: int
    entries: npt.NDArray[np.void]


@dataclass
class Packs:
    """Finds bodies in the packs of a folder; packs that come or grow meanwhile are noticed."""

    folder: Path
    _names: list[Path] = field(default_factory=list)
    _ends: dict[Path, int] = field(default_factory=dict)  # how far a pack was looked at
    _looked: bool = False
    _places: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, _PLACE))  # by key
    _keys: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))

    def find(self, sha256: str, *, look_again: bool = True) -> bytes | None:
        if not self._looked:
            self._refresh()
        body = self._found(sha256)
        return self._found(sha256) if body is None and look_again and self._refresh() else body

    def _found(self, sha256: str) -> bytes | None:
        key = np.uint64(int(sha256[:16], 16))
        left, right = (int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))
        for place in self._places[left:right][::-1].tolist():
            body = self._read(place)
            if hashlib.sha256(body).hexdigest() == sha256:
                return body
        return None

    def _read(self, place: tuple[int, int, int, int, int]) -> bytes:
        _, pack, at, begin, size = place
        try:
            return unpack_block(self._names[pack], at)[begin : begin + size]
        except (OSError, ValueError, zlib.error, struct.error):  # damaged, or gone
            return b""

    def _refresh(self) -> bool:
        self._looked = True
        found = []
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            size = path.stat().st_size
            if size <= self._ends.get(path, 0):
                continue
            if path not in self._ends:
                self._names.append(path)
            found.append(self._looked_at(path))
        if not sum(map(len, found)):
            return False
        places = np.concatenate([self._places, *found])
        self._places = places[np.argsort(places["key"], kind="stable")]
        self._keys = np.ascontiguousarray(self._places["key"])
        return True

    def _looked_at(self, path: Path) -> npt.NDArray[np.void]:
        begun = self._ends.get(path, 0)
        parts = [np.zeros(0, _PLACE)]
        for block in blocks(path, begun):
            entries = block.entries
            part = np.zeros(len(entries), _PLACE)
            hashes = np.frombuffer(entries["sha256"].tobytes(), ">u8").reshape(-1, 4)
            part["key"] = hashes[:, 0]
            part["pack"], part["at"] = self._names.index(path), block.at
            part["size"] = entries["size"]
            part["begin"] = np.cumsum(entries["size"]) - entries["size"]
            parts.append(part)
            begun = block.end
        self._ends[path] = begun
        return np.concatenate(parts)


def blocks(path: Path, begin: int = 0) -> Iterator[_Block]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        at = begin
        while at < size:
            block = _block_at(file, at, size)
            if block is None:
                at = _next_magic(file, at + 1)
                continue
            yield block
            at = block.end


def _block_at(file: IO[bytes], at: int, size: int) -> _Block | None:
    file.seek(at)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        return None
    _, number, raw, packed, crc = _HEAD.unpack(head)
    begin = at + _HEAD.size + number * _ENTRY_SIZE
    if begin + packed > size:
        return None
    table = file.read(number * _ENTRY_SIZE)
    if _sum(number, raw, packed, table) != crc:
        return None
    return _Block(begin, begin + packed, np.frombuffer(table, _ENTRY))


def _next_magic(file: IO[bytes], at: int) -> int:
    file.seek(at)
    rest = file.read()  # only behind damage
    found = rest.find(_MAGIC)
    return at + (found if found >= 0 else len(rest))


@lru_cache(maxsize=256)  # 8 MB of bodies that stand together, and are asked for together
def unpack_block(path: Path, at: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        unpacker = zlib.decompressobj()
        return unpacker.decompress(file.read(2 * BLOCK), 2 * BLOCK)

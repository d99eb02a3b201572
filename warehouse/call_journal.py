"""The records of model calls in one file, a line each, that many processes read and add to at once.

A file for each call would cost more processor time than the call. Calls that end together are written
together: their threads wait for one write and one flush. What was written before is never touched; of two
lines with one id, the later one counts. A line that a killed process has torn costs itself alone.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rag_assay.warehouse.journal import append_lines

AT_ONCE = 1 << 20  # bytes that are read at once
SECTOR = 512
_ID = re.compile(rb'\{"call_id": "([^"\\]+)"')


class _Place(NamedTuple):
    begin: int
    length: int


@dataclass
class _Batch:
    """Lines that are written together."""

    lines: list[bytes] = field(default_factory=list)
    is_written: bool = False
    error: Exception | None = None


class CallJournal:
    """Safe to use from many threads.

    path: of the file, which need not be there yet
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._file: tuple[int, int] | None = None  # device and inode of what was read
        self._end = 0  # bytes that were read
        self._places: dict[str, _Place] = {}
        self._writing = threading.Lock()
        self._batch = _Batch()

    def ids(self) -> set[str]:
        """Return the ids of all lines."""
        self.refresh()
        with self._lock:
            return set(self._places)

    def line(self, call_id: str) -> bytes | None:
        """Return the last line of an id that was there at the last `refresh`."""
        with self._lock:
            place = self._places.get(call_id)
            if place is None or self._handle is None:
                return None
            return _read_at(self._handle, place.length, place.begin)

    def refresh(self) -> None:
        """Read what this and other processes have added."""
        if self._stamp() == (self._file, self._end):
            return
        with self._lock:
            file, size = self._stamp()  # once more: another thread may have read on meanwhile
            if file != self._file or size < self._end:
                self._reopen(file)
            self._read(size)

    def _stamp(self) -> tuple[tuple[int, int] | None, int]:
        """Return the device and inode of the file that is there now, and its size."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 -- a path's method costs more, and this is for each call
        except FileNotFoundError:
            return None, 0
        return (found.st_dev, found.st_ino), found.st_size

    def _reopen(self, file: tuple[int, int] | None) -> None:
        """Begin anew with the file that is there now, if any."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None if file is None else os.open(self._path, os.O_RDONLY)
        self._file, self._end, self._places = file, 0, {}

    def _read(self, size: int) -> None:
        """Note where the lines of the first ``size`` bytes are; a line without an end is left."""
        n_bytes = AT_ONCE
        while self._handle is not None and self._end < size:
            data = _read_at(self._handle, min(n_bytes, size - self._end), self._end)
            begin = 0
            while (end := data.find(b"\n", begin)) >= 0:
                if found := _ID.match(data, begin):
                    self._places[found[1].decode()] = _Place(self._end + begin, end - begin)
                begin = end + 1
            self._end += begin
            if not begin:
                if len(data) < n_bytes:
                    return
                n_bytes *= 2  # a line is longer than that

    def add(self, line: bytes) -> None:
        """Add a line, which is on disk when this returns.

        Raises:
            AssayError: the file cannot be written: rights, a full disk.
        """
        with self._lock:
            batch = self._batch
            batch.lines.append(line)
        with self._writing:  # the first of a batch writes all of it
            if not batch.is_written:
                with self._lock:
                    self._batch = _Batch()
                batch.is_written = True
                try:
                    append_lines(self._path, b"".join(batch.lines))
                except Exception as error:  # raised in each of its threads
                    batch.error = error
        if batch.error is not None:
            raise batch.error


def _read_at(handle: int, length: int, begin: int) -> bytes:
    """Read a part of a file; line ends stand for the sectors that cannot be read."""
    try:
        return os.pread(handle, length, begin)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    if length <= SECTOR:
        return b"\n" * length
    half = length // 2
    return _read_at(handle, half, begin) + _read_at(handle, length - half, begin + half)

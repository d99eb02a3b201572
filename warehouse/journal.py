"""Appends lines (JSON objects with an id) to files that several processes write to."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from rag_assay.warehouse.artifact_records import json_object
from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.errors import AssayError, LockedError
from rag_assay.warehouse.locks import try_lock
from rag_assay.warehouse.remote import mirror_over

WAIT = 60.0  # seconds for another process that appends to the same file: each holds it for milliseconds
GLANCE = 0.005
MOST_KNOWN = 64  # files whose ids are remembered

Object = dict[str, Any]


class JournalLine(NamedTuple):
    """A line of a journal, from 1; ``record``: None where it is no JSON object."""

    number: int
    record: Object | None


_turn = threading.RLock()  # of the threads of this process; processes exclude each other by locks
_known: dict[tuple[Path, str], tuple[tuple[int, ...], set[str]]] = {}  # stamp of a file, and its ids


def read_lines(data: bytes) -> Iterator[JournalLine]:
    r"""Yield the lines of a journal; the last one, if it was torn or is being written, is left out.

    >>> [one.record for one in read_lines(b'{"a": 1}\n{"a\n{"b": 2}\n{"c"')]
    [{'a': 1}, None, {'b': 2}]
    """
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = json_object(line)
        if record is not None or number < len(lines):
            yield JournalLine(number, record)


def read_records(path: Path, is_there: Callable[[Object], bool]) -> Iterator[Object]:
    """Yield the valid records of a journal; none where there is no file."""
    with suppress(FileNotFoundError):
        for line in read_lines(path.read_bytes()):
            if line.record is not None and is_there(line.record):
                yield line.record


def append(
    path: Path, records: Iterable[Mapping[str, Any]], key: str, is_there: Callable[[Object], bool]
) -> int:
    """Add the records whose id is new, by one write; return how many. Raises LockedError after a minute."""
    with _turn, _opened(path) as (handle, locked):
        known = _ids(path, handle, key, is_there)
        new = {str(one[key]): one for one in records if one[key] not in known}
        if not new:
            return 0
        text = "".join(json.dumps(one, allow_nan=False) + "\n" for one in new.values())
        _write(path, handle, text.encode("ascii"), locked=locked)
        known.update(new)
        _known.pop((path, key), None)
        _known[path, key] = _stamp(handle), known
        while len(_known) > MOST_KNOWN:
            del _known[next(iter(_known))]
        if mirror := mirror_over(path):
            mirror.merge(path)
        return len(new)


def append_lines(path: Path, data: bytes) -> None:
    """One write, all or nothing. Raises LockedError: another process held the file for a minute."""
    with _opened(path) as (handle, locked):
        _write(path, handle, data, locked=locked)


def open_in(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CREAT, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags | os.O_CREAT, 0o644)


def _stamp(handle: int) -> tuple[int, ...]:
    at = os.fstat(handle)
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns


def _ids(path: Path, handle: int, key: str, is_there: Callable[[Object], bool]) -> set[str]:
    stamp, ids = _known.get((path, key), ((), set[str]()))
    if stamp == _stamp(handle):
        return ids
    return {str(record[key]) for record in read_records(path, is_there)}


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, bool]]:
    end = monotonic() + WAIT
    while True:
        try:
            handle = open_in(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise AssayError(f"{path}: cannot be written ({error.strerror})") from error
        try:
            while (locked := try_lock(handle)) is False:
                if monotonic() > end:
                    raise LockedError(f"{path}: another process has held it for {WAIT:.0f} s; end that one")
                cancellable_sleep(GLANCE)
            if is_at(handle, path):  # another file may have taken its place meanwhile, by an editor say
                yield handle, bool(locked)
                return
        finally:
            os.close(handle)


def is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _write(path: Path, handle: int, data: bytes, *, locked: bool) -> None:
    size = os.fstat(handle).st_size
    torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    left = memoryview(b"\n" + data if torn else data)
    try:
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
        if size == 0:
            _keep_name(path.parent)
    except OSError as error:
        if locked:  # else another one may have written behind it
            os.ftruncate(handle, size)
        raise AssayError(f"{path}: cannot be written ({error.strerror}); nothing was added") from error


def _keep_name(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(handle)

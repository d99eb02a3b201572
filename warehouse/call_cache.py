"""The cache of language-model calls, found by the digest of model and request, and what each call cost."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from rag_assay.warehouse.artifact_records import bytes_of, json_object
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.fair_slots import FairSlots
from rag_assay.warehouse.identity import sha256_bytes
from rag_assay.warehouse.journal import append_lines, is_at, open_in, read_lines
from rag_assay.warehouse.json_encoder import json_encoder
from rag_assay.warehouse.locks import try_lock_byte, unlock_byte
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.schemas import CALLS

_COSTS = json.JSONEncoder(allow_nan=False)  # which have no long text
_encode = json_encoder(escape_surrogates=True)

AT_ONCE = 1 << 20  # bytes that are read at once
SECTOR = 512
_ID = re.compile(rb'\{"call_id": "([^"\\]+)"')


Item = TypeVar("Item")


@dataclass
class _Batch(Generic[Item]):
    items: list[Item] = field(default_factory=list)
    is_written: bool = False
    error: Exception | None = None


class GroupCommit(Generic[Item]):
    """Writes what many threads have at once together. Safe to use from many threads."""

    def __init__(self, write: Callable[[list[Item]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._batch: _Batch[Item] = _Batch()

    def add(self, item: Item) -> None:
        with self._lock:
            batch = self._batch
            batch.items.append(item)
        with self._writing:  # the first of a batch writes all of it
            if not batch.is_written:
                with self._lock:
                    self._batch = _Batch()
                batch.is_written = True
                try:
                    self._write(batch.items)
                except Exception as error:  # raised in each of its threads
                    batch.error = error
        if batch.error is not None:
            raise batch.error


class CallJournal:
    """Safe to use from many threads. The file need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._file: tuple[int, int] | None = None  # device and inode of what was read
        self._end = 0  # bytes that were read
        self._places: dict[str, tuple[int, int]] = {}  # where a line begins, and its bytes

    def ids(self) -> set[str]:
        self.refresh()
        with self._lock:
            return set(self._places)

    def has(self, call_id: str) -> bool:
        return call_id in self._places

    def line(self, call_id: str) -> bytes | None:
        with self._lock:
            place = self._places.get(call_id)
            if place is None or self._handle is None:
                return None
            begin, length = place
            return _read_at(self._handle, length, begin)

    def refresh(self) -> None:
        if self._stamp() == (self._file, self._end):
            return
        with self._lock:
            file, size = self._stamp()  # once more: another thread may have read on meanwhile
            if file != self._file or size < self._end:
                if self._handle is not None:
                    os.close(self._handle)
                self._handle = None if file is None else os.open(self._path, os.O_RDONLY)
                self._file, self._end, self._places = file, 0, {}
            self._read(size)

    def _stamp(self) -> tuple[tuple[int, int] | None, int]:
        try:
            found = os.stat(self._path)  # noqa: PTH116 -- a path's method costs more, and this is for each call
        except FileNotFoundError:
            return None, 0
        return (found.st_dev, found.st_ino), found.st_size

    def _read(self, size: int) -> None:
        n_bytes = AT_ONCE
        while self._handle is not None and self._end < size:
            data = _read_at(self._handle, min(n_bytes, size - self._end), self._end)
            begin = 0
            while (end := data.find(b"\n", begin)) >= 0:
                if found := _ID.match(data, begin):
                    self._places[found[1].decode()] = self._end + begin, end - begin
                begin = end + 1
            self._end += begin
            if not begin:
                if len(data) < n_bytes:
                    return
                n_bytes *= 2  # a line is longer than that


def _read_at(handle: int, length: int, begin: int) -> bytes:
    try:
        return os.pread(handle, length, begin)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    if length <= SECTOR:
        return b"\n" * length
    half = length // 2
    return _read_at(handle, half, begin) + _read_at(handle, length - half, begin + half)


LOCK, JOURNAL = "turns.lock", "calls.jsonl"
COSTS = frozenset(CALLS) - {"request", "response"}  # columns that the ledger has
SUM = b', "sha256": "'  # before the digest of all that stands before it, at the end of a record
GLANCE = 0.05  # seconds after which it is looked whether another process has made a call


class _Turns:
    """The turns of this process's threads at the calls of a folder: locks of single bytes of one file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # Never closed, for that would give all of the process's locks back.
        self._handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        self._lock = threading.Lock()
        self._slots: dict[str, tuple[FairSlots, int]] = {}  # of a call, and how many threads want or have it

    def is_at(self, folder: Path) -> bool:
        return is_at(self._handle, folder / LOCK)

    @contextmanager
    def turn(self, call_id: str) -> Iterator[None]:
        with self._lock:
            slot, n_wanted = self._slots.get(call_id) or (FairSlots(), 0)
            self._slots[call_id] = slot, n_wanted + 1
        try:
            slot.acquire()
            try:
                at = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:7])
                while (locked := try_lock_byte(self._handle, at)) is False:
                    cancellable_sleep(GLANCE)
                try:
                    yield
                finally:
                    if locked:
                        unlock_byte(self._handle, at)
            finally:
                slot.release()
        finally:
            with self._lock:
                slot, n_wanted = self._slots.pop(call_id)
                if n_wanted > 1:
                    self._slots[call_id] = slot, n_wanted - 1


_turns: dict[Path, _Turns] = {}
_turns_lock = threading.Lock()


def _turns_of(folder: Path) -> _Turns:
    with _turns_lock:
        found = _turns.get(folder)
        if found is None or not found.is_at(folder):  # the folder may have been removed meanwhile
            found = _turns[folder] = _Turns(folder)
        return found


class CallCache:
    """Calls by their id, in `<home>/cache/calls/calls.jsonl`, with at least the columns of `schemas.CALLS`.
    In a workspace at a URL each record is a file, and machines take turns at a call.
    """

    def __init__(self, home: Home) -> None:
        self.folder = home.cache("calls")
        self.ledger = home.paid
        self._path_of_journal = self.folder / JOURNAL
        self._mirror = mirror_of(home)
        self._journal = CallJournal(self._path_of_journal)
        self._commit: GroupCommit[tuple[bytes, bytes]] = GroupCommit(self._write)
        self._turns: _Turns | None = None

    def look_up(self, call_id: str) -> dict[str, Any] | None:
        """Return what `get` does, at most without what was added since anything was read last."""
        return self.get(call_id) if self._mirror or self._journal.has(call_id) else None

    def get(self, call_id: str) -> dict[str, Any] | None:
        self._journal.refresh()
        record = self._record(call_id)
        if record is None and self._mirror:
            self._mirror.bring([self._path(call_id)])
            record = self._record(call_id)
        return record

    def _record(self, call_id: str) -> dict[str, Any] | None:
        line = self._journal.line(call_id)
        if line is None and self._mirror:
            line = bytes_of(self._path(call_id))
        record = None if line is None else _parsed(line)
        return record if record and record.get("call_id") == call_id else None

    def put(self, call_id: str, record: Mapping[str, Any]) -> None:
        """Store a call and note what it cost; both are on disk when this returns."""
        # The id first, where the journal looks for it.
        whole = {"call_id": call_id, **record, **{"call_id": call_id}}
        cost = _COSTS.encode({name: value for name, value in whole.items() if name in COSTS})
        more = _encode({name: value for name, value in whole.items() if name not in COSTS})
        data = (f"{cost[:-1]}, {more[1:]}" if len(more) > len("{}") else cost).encode()
        data = data[:-1] + SUM + sha256_bytes(data).encode() + b'"}'
        if self._mirror is None:
            self._commit.add((data + b"\n", cost.encode()))
        else:
            with atomic_write(self._path(call_id)) as temporary:
                temporary.write_bytes(data)
            self._note([cost.encode()])
            self._mirror.keep(self._path(call_id))

    def _write(self, records: list[tuple[bytes, bytes]]) -> None:
        lines, costs = zip(*records, strict=True)
        append_lines(self._path_of_journal, b"".join(lines))
        self._note(costs)

    def forget(self, call_ids: Iterable[str]) -> None:
        for call_id in call_ids:
            gone = b'{"call_id": "' + call_id.encode() + b'"}'  # no record: it has no digest
            if self._mirror is None:
                append_lines(self._path_of_journal, gone + b"\n")
            elif self.get(call_id):
                with atomic_write(self._path(call_id)) as temporary:
                    temporary.write_bytes(gone)
                self._mirror.keep(self._path(call_id))

    @contextmanager
    def turn(self, call_id: str) -> Iterator[None]:
        if self._turns is None:
            self._turns = _turns_of(self.folder)
        with self._turns.turn(call_id):
            if self._mirror is None:
                yield
            else:
                with self._mirror.turns.turn(f"calls/{call_id}", lambda: self.get(call_id) is not None):
                    yield

    def _note(self, costs: Iterable[bytes]) -> None:
        handle = open_in(self.ledger / f"{datetime.now(UTC):%Y-%m}.jsonl", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, b"".join(b"\n" + cost for cost in costs))
        finally:
            os.close(handle)

    def paid(self, known: Collection[str] = frozenset()) -> Iterator[dict[str, Any]]:
        """Yield what calls cost, oldest first, but for ``known`` ids; the second call of `abc` is `abc~2`."""
        files = sorted(self.ledger.glob("*.jsonl"))
        lines = Counter(_id_in(line) for path in files for line in path.read_bytes().splitlines())
        times: Counter[str] = Counter()
        for path in files:
            for line in path.read_bytes().splitlines():
                call_id = _id_in(line)
                if lines[call_id] == 1 and call_id in known:  # read no line in vain
                    continue
                for one in (one.record for one in read_lines(line)):
                    if one and isinstance(one.get("call_id"), str):
                        row = _row(one)
                        times[row["call_id"]] += 1
                        n = times[row["call_id"]]
                        yield {**row, "call_id": f"{row['call_id']}~{n}"} if n > 1 else row

    def rows(self, known: Collection[str] = frozenset()) -> Iterator[dict[str, Any]]:
        there = self._journal.ids()
        if self._mirror:
            self._mirror.pull("cache/calls")
            there.update(path.stem for path in self.folder.glob("??/*.json"))
        for call_id in sorted(there.difference(known)):
            if record := self._record(call_id):
                yield _row(record)

    def _path(self, call_id: str) -> Path:
        return self.folder / call_id[:2] / f"{call_id}.json"


def _parsed(data: bytes) -> dict[str, Any] | None:
    record = json_object(data)
    if record is None:
        return None
    checksum = record.pop("sha256", None)
    before = data.rpartition(SUM)[0] + b"}"
    return record if checksum == hashlib.sha256(before).hexdigest() else None


def _id_in(line: bytes) -> str:
    return line.removeprefix(b'{"call_id": "').partition(b'"')[0].decode("ascii", "replace")


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    row = {column: record.get(column) for column in CALLS}
    return {**row, "created_at": _time(row["created_at"])}


def _time(value: object) -> datetime | None:
    with suppress(ValueError):  # NULL for a time that another program wrote
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    return None

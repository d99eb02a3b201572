"""The cache of language-model calls: a record each, found by the digest of model and request.

What each call cost is kept apart, in files that only grow (`<home>/paid/<month>.jsonl`): an answer that is
lost is asked for again, and what was paid for it stays known.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.call_journal import CallJournal
from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.journal import read_lines
from rag_assay.warehouse.locks import try_lock_byte, unlock_byte
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.same_calls import SameCalls
from rag_assay.warehouse.schemas import CALLS

LOCK, JOURNAL = "turns.lock", "calls.jsonl"
TEXTS = frozenset({"request", "response"})  # columns of `schemas.CALLS` that the ledger has not
SUM = b', "sha256": "'  # before the digest of all that stands before it, at the end of a record
GLANCE = 0.05  # seconds after which it is looked whether another process has made a call


class _Turns:
    """The turns of this process's threads at the calls of a folder.

    Each holds the lock of a byte, at a place of its own in one file: a locked file for each call would cost
    more than the rest of the cache.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # Never closed, for that would give all of the process's locks back.
        self._handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        self._same_calls = SameCalls()

    def is_at(self, folder: Path) -> bool:
        """Return whether the locked file is that of the folder."""
        try:
            return os.path.samestat(os.fstat(self._handle), (folder / LOCK).stat())
        except FileNotFoundError:
            return False

    @contextmanager
    def turn(self, call_id: str) -> Iterator[None]:
        """Wait until no other thread of any process makes the call."""
        with self._same_calls.turn(call_id):
            at = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:7])
            while (locked := try_lock_byte(self._handle, at)) is False:
                cancellable_sleep(GLANCE)
            try:
                yield
            finally:
                if locked:
                    unlock_byte(self._handle, at)


_turns: dict[Path, _Turns] = {}
_turns_lock = threading.Lock()


def _turns_of(folder: Path) -> _Turns:
    with _turns_lock:
        found = _turns.get(folder)
        if found is None or not found.is_at(folder):  # the folder may have been removed meanwhile
            found = _turns[folder] = _Turns(folder)
        return found


class CallCache:
    """Calls by their id, in `<home>/cache/calls/calls.jsonl`.

    A record holds the columns of `schemas.CALLS`, with `created_at` in ISO 8601, and may hold more. In a
    workspace at a URL each record is a file, `<first two digits>/<call_id>.json`, so that each machine finds
    the records of all, and machines take turns at a call as processes do.
    """

    def __init__(self, home: Home) -> None:
        self.folder = home.cache("calls")
        self.ledger = home.paid
        self._mirror = mirror_of(home)
        self._journal = CallJournal(self.folder / JOURNAL)
        self._turns: _Turns | None = None
        self._has_files = self._mirror is not None or any(self.folder.glob("??"))

    def get(self, call_id: str) -> dict[str, Any] | None:
        """Return the record of a call, or None when there is none; a damaged one counts as none."""
        self._journal.refresh()
        record = self._record(call_id)
        if record is None and self._mirror:
            self._mirror.bring([self._path(call_id)])
            record = self._record(call_id)
        return record

    def _record(self, call_id: str) -> dict[str, Any] | None:
        line = self._journal.line(call_id)
        if line is None and self._has_files:
            line = _content(self._path(call_id))
        record = None if line is None else _parsed(line)
        return record if record and record.get("call_id") == call_id else None

    def put(self, call_id: str, record: Mapping[str, Any]) -> None:
        """Store the record of a call at once: another reader sees all of it or nothing. Note what it cost.

        It is on disk when this returns.

        Raises:
            ValueError: it holds a NaN or an infinity, which JSON does not know.
            AssayError: it cannot be written: rights, a full disk.
        """
        # The id first, where the journal looks for it; by json's C code, for there is no indent.
        whole = {"call_id": call_id, **record, **{"call_id": call_id}}
        data = json.dumps(whole, allow_nan=False).encode("ascii")
        data = data[:-1] + SUM + hashlib.sha256(data).hexdigest().encode() + b'"}'
        if self._mirror is None:
            self._journal.add(data + b"\n")
        else:
            with atomic_write(self._path(call_id)) as temporary:
                temporary.write_bytes(data)
        self._note({name: whole.get(name) for name in CALLS if name not in TEXTS})
        if self._mirror:
            self._mirror.keep(self._path(call_id))

    @contextmanager
    def turn(self, call_id: str) -> Iterator[None]:
        """Wait until nobody else, in any process, makes the same call; a killed one gives its turn away.

        Raises:
            UnwantedError: nobody wants the call any more.
            AssayError: the object storage of the home cannot be used.
        """
        if self._turns is None:
            self._turns = _turns_of(self.folder)
        with self._turns.turn(call_id):
            if self._mirror is None:
                yield
            else:
                with self._mirror.turns.turn(f"calls/{call_id}", lambda: self.get(call_id) is not None):
                    yield

    def _note(self, cost: Mapping[str, Any]) -> None:
        """Add a line to the ledger by one write: what a killed writer has torn ends before it."""
        self.ledger.mkdir(exist_ok=True)
        line = b"\n" + json.dumps(cost).encode("ascii")
        handle = os.open(
            self.ledger / f"{datetime.now(UTC):%Y-%m}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
        try:
            os.write(handle, line)
        finally:
            os.close(handle)

    def paid(self, known: Collection[str] = frozenset()) -> Iterator[dict[str, Any]]:
        """Yield what calls cost, the oldest first, by the columns of `schemas.CALLS` without their texts.

        known: ids that are passed over
        """
        for path in sorted(self.ledger.glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                call_id = line.removeprefix(b'{"call_id": "').partition(b'"')[0]  # read no line in vain
                if call_id.decode("ascii", "replace") not in known:
                    found = (one.record for one in read_lines(line))
                    yield from (_row(one) for one in found if one and isinstance(one.get("call_id"), str))

    def rows(self, known: Collection[str] = frozenset()) -> Iterator[dict[str, Any]]:
        """Yield every whole record with exactly the columns of `schemas.CALLS`, in the order of their ids.

        known: ids that are passed over, unread. A record never changes, and ids are compared rather than
            times, so that neither a clock nor a record that comes late leaves a call out.
        """
        if self._mirror:
            self._mirror.pull("cache/calls")
        there = self._journal.ids()
        for folder in self.folder.glob("??"):
            if folder.is_dir():
                self._has_files = True
                names = os.listdir(folder)  # noqa: PTH208 -- a path each costs more
                there.update(name.removesuffix(".json") for name in names if name.endswith(".json"))
        for call_id in sorted(there.difference(known)):
            if record := self._record(call_id):
                yield _row(record)

    def _path(self, call_id: str) -> Path:
        return self.folder / call_id[:2] / f"{call_id}.json"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EIO:  # a bad sector
            return None
        raise


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(data)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    checksum = record.pop("sha256", None)
    before = data.rpartition(SUM)[0] + b"}"
    return record if checksum == hashlib.sha256(before).hexdigest() else None


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    row = {column: record.get(column) for column in CALLS}
    return {**row, "created_at": _time(row["created_at"])}


def _time(value: object) -> datetime | None:
    with suppress(ValueError):  # NULL for a time that another program wrote
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    return None

"""The cache of language-model calls: a record each, found by the digest of model and request."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.call_journal import CallJournal
from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.locks import try_lock_byte, unlock_byte
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.same_calls import SameCalls
from rag_assay.warehouse.schemas import CALLS

LOCK, JOURNAL = "turns.lock", "calls.jsonl"
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

    A record holds the columns of `schemas.CALLS`, with `created_at` in ISO 8601, and may hold more. In a home
    at a URL each record is a file, `<first two digits>/<call_id>.json`, as in homes of earlier versions: the
    records of all machines are found, and machines take turns at a call as processes do.
    """

    def __init__(self, home: Home) -> None:
        self.folder = home.cache("calls")
        self._mirror = mirror_of(home)
        self._journal = CallJournal(self.folder / JOURNAL)
        self._turns: _Turns | None = None
        self._has_files = self._mirror is not None or any(self.folder.glob("??"))

    def get(self, call_id: str) -> dict[str, Any] | None:
        """Return the record of a call, or None when there is none; a torn one counts as none."""
        self._journal.refresh()
        record = self._record(call_id)
        if record is None and self._mirror:
            self._mirror.bring([self._path(call_id)])
            record = self._record(call_id)
        return record

    def _record(self, call_id: str) -> dict[str, Any] | None:
        line = self._journal.line(call_id)
        if line is None and self._has_files:
            with suppress(FileNotFoundError):
                line = self._path(call_id).read_bytes()
        if line is None:
            return None
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and record.get("call_id") == call_id:
                return record
        return None

    def put(self, call_id: str, record: Mapping[str, Any]) -> None:
        """Store the record of a call at once: another reader sees all of it or nothing.

        It is on disk when this returns.

        Raises:
            ValueError: it holds a NaN or an infinity, which JSON does not know.
            AssayError: it cannot be written: rights, a full disk.
        """
        # The id first, where the journal looks for it; by json's C code, for there is no indent.
        text = json.dumps({"call_id": call_id, **record, **{"call_id": call_id}}, allow_nan=False)
        if self._mirror is None:
            self._journal.add(text.encode("ascii") + b"\n")
            return
        with atomic_write(self._path(call_id)) as temporary:
            temporary.write_text(text, encoding="ascii")
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
                row = {column: record.get(column) for column in CALLS}
                yield {**row, "created_at": _time(row["created_at"])}

    def _path(self, call_id: str) -> Path:
        return self.folder / call_id[:2] / f"{call_id}.json"


def _time(value: object) -> datetime | None:
    with suppress(ValueError):  # NULL for a time that another program wrote
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    return None

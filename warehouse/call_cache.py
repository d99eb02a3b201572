"""The cache of language-model calls: one JSON file a call, named by the digest of model and request."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.locks import try_lock
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.schemas import CALLS

GLANCE = 0.05  # seconds after which it is looked whether another process has made a call


class CallCache:
    """Calls by their id, in `<home>/cache/calls/<first two digits>/<call_id>.json`.

    A record holds the columns of `schemas.CALLS`, with `created_at` in ISO 8601, and may hold more. While a
    call is made, a locked file `<call_id>.lock` stands beside the place of its record. In a home at a URL the
    records of all machines are found, and machines take turns at a call as processes do.
    """

    def __init__(self, home: Home) -> None:
        self.folder = home.cache("calls")
        self._mirror = mirror_of(home)

    def get(self, call_id: str) -> dict[str, Any] | None:
        """Return the record of a call, or None when there is none; a torn file counts as none."""
        path = self._path(call_id)
        if self._mirror and not path.exists():
            self._mirror.bring([path])
        record = _read(path)
        return record if record and record.get("call_id") == call_id else None

    def put(self, call_id: str, record: Mapping[str, Any]) -> None:
        """Store the record of a call at once: another reader sees all of it or nothing.

        Raises `ValueError` for a NaN or an infinity, which JSON does not know.
        """
        text = json.dumps(
            {**record, "call_id": call_id}, allow_nan=False
        )  # by json's C code, for there is no indent
        with atomic_write(self._path(call_id)) as temporary:
            temporary.write_text(text, encoding="ascii")
        if self._mirror:
            self._mirror.keep(self._path(call_id))

    @contextmanager
    def turn(self, call_id: str) -> Iterator[None]:
        """Wait until nobody else, in any process, makes the same call; a killed one gives its turn away.

        Raises:
            UnwantedError: nobody wants the call any more.
            AssayError: the object storage of the home cannot be used.
        """
        path = self._path(call_id).with_suffix(".lock")
        handle = self._locked(path)
        try:
            if self._mirror is None:
                yield
            else:
                with self._mirror.turns.turn(f"calls/{call_id}", lambda: self.get(call_id) is not None):
                    yield
        finally:
            if handle is not None:
                path.unlink(missing_ok=True)  # while it is locked: who waits for it sees that it is gone
                os.close(handle)

    def _locked(self, path: Path) -> int | None:
        """Return the locked file, opened; None where the file system knows no locks."""
        while True:
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            except FileNotFoundError:  # the first call of its folder
                path.parent.mkdir(parents=True, exist_ok=True)
                continue
            try:
                while (locked := try_lock(handle)) is False:
                    cancellable_sleep(GLANCE)
                if locked and _is_at(handle, path):
                    handle, mine = -1, handle
                    return mine
            finally:
                if handle >= 0:
                    os.close(handle)
            if locked is None:
                return None

    def rows(self, known: Collection[str] = frozenset()) -> Iterator[dict[str, Any]]:
        """Yield every whole record with exactly the columns of `schemas.CALLS`, in the order of their ids.

        known: ids whose files are passed over by name, unread. A record never changes, and names are compared
            rather than times, so that neither a clock nor a file that comes late leaves a call out.
        """
        if self._mirror:
            self._mirror.pull("cache/calls")
        for path in sorted(self._unknown(known)):
            record = _read(path)
            if record:
                row = {column: record.get(column) for column in CALLS}
                yield {**row, "created_at": _time(row["created_at"])}

    def _unknown(self, known: Collection[str]) -> Iterator[Path]:
        """Yield the files of calls that are not among the known ones, from a listing of each folder."""
        for folder in self.folder.glob("??"):
            if folder.is_dir():
                names = (name for name in os.listdir(folder) if name.endswith(".json"))  # noqa: PTH208 -- a path each costs more
                yield from (folder / name for name in names if name.removesuffix(".json") not in known)

    def _path(self, call_id: str) -> Path:
        return self.folder / call_id[:2] / f"{call_id}.json"


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one of that path."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _time(value: object) -> datetime | None:
    with suppress(ValueError):  # NULL for a time that another program wrote
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    return None

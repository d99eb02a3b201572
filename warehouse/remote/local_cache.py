"""The scratch folder of a home on object storage: a cache of immutable files with a limit of its size.

`ASSAY_SCRATCH_GB` (default 20) is the limit. The files of artifacts that were used longest ago go first,
never those that a process which lives has used: what it has opened stays.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag_assay.warehouse.artifact_records import RECORD
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.locks import try_lock
from rag_assay.warehouse.paths import Home

GIGABYTES = 20.0
_STEP = 20  # the scratch is measured again when this part of its limit was fetched


class Scratch:
    """What is in use of a scratch folder, and what may go; safe for several processes and threads."""

    def __init__(self, home: Home) -> None:
        self.root = home.root
        self._used: set[Path] = set()
        self._fetched: float | None = None  # bytes since it was measured; None: never
        self._note: int | None = None
        self._owner = 0
        self._lock = threading.RLock()

    @contextmanager
    def using(self, folder: Path) -> Iterator[None]:
        """Let a folder stay for as long as this process lives; nothing goes while the block is run."""
        with self._lock, self._shared(fcntl.LOCK_SH):
            if folder not in self._used or self._owner != os.getpid():
                os.write(self._noted(), f"{folder}\n".encode("utf-8", "surrogateescape"))
                self._used.add(folder)
                with suppress(OSError):
                    os.utime(folder)
            yield

    def make_room(self, size: int) -> None:
        """Let what was used longest ago go, where the scratch would be larger than its limit.

        size: bytes that are to come
        """
        limit = limit_of_scratch()
        with self._lock:
            self._fetched = None if self._fetched is None else self._fetched + size
            if self._fetched is not None and self._fetched < limit / _STEP:
                return
            self._evict(max(limit - size, 0))
            self._fetched = 0.0

    def _evict(self, limit: float) -> None:
        with self._shared(fcntl.LOCK_EX):
            folders = sorted(self._folders(), key=lambda one: one[1])
            total = sum(size for _, _, size in folders)
            used = self._in_use() if total > limit else set()
            for folder, _, size in folders:
                if total <= limit:
                    break
                if folder not in used:
                    gone = folder.with_name(f".gone-{uuid.uuid4().hex[:12]}")
                    with suppress(OSError):
                        folder.rename(gone)
                        total -= size
                    shutil.rmtree(gone, ignore_errors=True)

    def _folders(self) -> Iterator[tuple[Path, float, int]]:
        """Yield the folders of artifacts' files: path, when it was last used, bytes."""
        for record in self.root.glob(f"*/*/{RECORD}"):
            for folder in record.parent.glob("[!.]*"):
                if folder.is_dir():
                    with suppress(FileNotFoundError):
                        size = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
                        yield folder, folder.stat().st_mtime, size

    def _in_use(self) -> set[Path]:
        """Return the folders that processes which live have used."""
        found = set(self._used)
        for note in (self.root / ".users").glob("*"):
            handle = os.open(note, os.O_RDONLY)
            try:
                if note.name != self._name() and try_lock(handle):
                    note.unlink(missing_ok=True)
                    continue
                lines = note.read_bytes().decode("utf-8", "surrogateescape").splitlines()
                found |= {Path(line) for line in lines}
            finally:
                os.close(handle)
        return found

    def _noted(self) -> int:
        """Return the file in which this process notes what it uses; it is locked while the process lives."""
        if self._note is None or self._owner != os.getpid():  # a fork has its own
            path = self.root / ".users" / self._name()
            path.parent.mkdir(parents=True, exist_ok=True)
            self._note = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try_lock(self._note)
            self._owner = os.getpid()
            self._used.clear()
        return self._note

    def _name(self) -> str:
        return f"{os.uname().nodename}-{os.getpid()}-{id(self)}"

    @contextmanager
    def _shared(self, kind: int) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.root / ".scratch.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, kind)
            yield
        finally:
            os.close(handle)


def limit_of_scratch() -> float:
    """Return the bytes that a scratch folder may hold.

    Raises:
        InputError: `ASSAY_SCRATCH_GB` is no number.
    """
    try:
        return max(0.0, float(os.environ.get("ASSAY_SCRATCH_GB") or GIGABYTES)) * 1e9
    except ValueError as error:
        raise InputError("ASSAY_SCRATCH_GB: a number of gigabytes is needed") from error

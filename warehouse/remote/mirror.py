"""What lies in a workspace on object storage beside its artifacts, and turns that lost machines give away."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from rag_assay.warehouse.artifact_records import bytes_of, json_object
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.remote.store import ObjectInfo, RemoteStore, Version, at_once

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

FOLDER = "turns"
BEAT = 10.0  # seconds between two signs of life
LOST = 45.0  # seconds without one after which a turn is given away
GLANCE = 0.2  # seconds between two looks of who waits


class Turns:
    """The turns of one process; safe for several threads."""

    def __init__(self, store: RemoteStore, beat: float = BEAT, lost: float = LOST) -> None:
        self.store = store
        self._beat, self._lost = beat, lost
        self._held: dict[str, bytes] = {}  # path -> what its object holds
        self._lock = threading.Lock()
        self._beating: threading.Thread | None = None

    @contextmanager
    def turn(self, name: str, is_done: Callable[[], bool]) -> Iterator[None]:
        """Wait until no other machine is at it; one that finds it done has no turn and needs none."""
        path = f"{FOLDER}/{name}"
        mine = uuid.uuid4().hex.encode()
        holds = self._taken(path, mine, is_done)
        if holds:
            with self._lock:
                self._held[path] = mine
                if self._beating is None:
                    self._beating = threading.Thread(target=self._show_life, name="turns", daemon=True)
                    self._beating.start()
        try:
            yield
        finally:
            if holds:
                with self._lock:
                    is_mine = self._held.pop(path, None) is not None
                if is_mine:
                    with suppress(AssayError):  # it is void soon
                        self.store.delete([path])

    def _taken(self, path: str, mine: bytes, is_done: Callable[[], bool]) -> bool:
        seen: tuple[Version | None, float] = (None, monotonic())
        while not self.store.create(path, mine):
            found = self.store.read_with_version(path)
            if is_done():
                return False
            if found is None:
                continue  # it was released just now
            if found[1] != seen[0]:
                seen = (found[1], monotonic())
            elif monotonic() - seen[1] > self._lost and self.store.replace(path, mine, found[1]):
                return True
            cancellable_sleep(GLANCE)
        return True

    def _show_life(self) -> None:
        idle = threading.Event()
        while True:
            idle.wait(self._beat)
            with self._lock:
                held = list(self._held)
                if not held:
                    self._beating = None
                    return
            for path in held:
                self._show(path)

    def _show(self, path: str) -> None:
        with suppress(AssayError):
            found = self.store.read_with_version(path)
            with self._lock:
                data = self._held.get(path)
                if data is None:
                    return
                if found is None or found[0] != data:
                    del self._held[path]
                    return
                self._held[path] = new = data[:32] + uuid.uuid4().hex.encode()
            if not self.store.replace(path, new, found[1]):
                with self._lock:
                    self._held.pop(path, None)


JOURNALS = ("people", "history", "chats", "alerts", "paid")
_HERE = frozenset({"lock", "journal.jsonl", "crawl.log"})  # of a crawl that is under way here
_STATE = ".mirror"

Known = dict[str, list[int | str]]
"""Path of a file -> its bytes and time of change in nanoseconds, and the version of its object then."""


class Mirror:
    """Files of a workspace and their objects, by paths below the workspace; safe for several threads."""

    def __init__(self, home: Home, store: RemoteStore) -> None:
        self.root = home.root
        self.store = store
        self.turns = Turns(store)
        self._lock = threading.RLock()

    def push(self, *places: str) -> None:
        for place in places:
            with self._lock:
                known = self._read(place)
                here = [path for path in self._files(place) if not _is_journal(place, path.name)]
                written = [path for path in here if _stamp(path) != known.get(self._name(path), [])[:2]]
                etags = at_once(lambda path: self.store.upload(path, self._name(path)), written)
                for path, etag in zip(written, etags, strict=True):
                    known[self._name(path)] = [*_stamp(path), etag]
                if written:
                    self._write(place, known)

    def pull(self, *places: str, once: bool = False) -> None:
        for place in places:
            with self._lock:
                known = self._read(place)
                there = [one for one in self.store.list(place) if not _is_journal(place, one.path)]
                lacking = [one for one in there if self._is_lacking(one, known, once=once)]
                found = at_once(lambda one: self.store.download(one.path, self.root / one.path), lacking)
                for one, fetched in zip(lacking, found, strict=True):
                    if fetched:
                        known[one.path] = [*_stamp(self.root / one.path), one.etag]
                if lacking:
                    self._write(place, known)

    def _is_lacking(self, one: ObjectInfo, known: Known, *, once: bool) -> bool:
        before, path = known.get(one.path), self.root / one.path
        if before is None:
            return not path.exists()
        if not path.exists():
            return not once
        return one.etag != before[2] and _stamp(path) == before[:2]

    def bring(self, paths: Iterable[Path]) -> None:
        lacking = [path for path in paths if not path.exists()]
        at_once(lambda path: self.store.download(self._name(path), path), lacking)

    def keep(self, path: Path) -> None:
        self.store.create(self._name(path), path.read_bytes())

    def merge(self, path: Path) -> None:
        """Join the lines here and there; a journal that another machine removed is removed here."""
        name = self._name(path)
        with self._lock:
            known = self._read("journals")
            while True:
                mine = path.read_bytes() if path.exists() else b""
                found = self.store.read_with_version(name)
                if found is None and (name in known or not mine):
                    path.unlink(missing_ok=True)
                    known.pop(name, None)
                    break
                whole = _with_lines_of(found[0] if found else b"", mine)
                if not found or whole != found[0]:
                    swapped = (
                        self.store.replace(name, whole, found[1]) if found else self.store.create(name, whole)
                    )
                    if not swapped:
                        continue  # another machine has added lines meanwhile
                if lacking := _with_lines_of(mine, whole)[len(mine) :]:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("ab", buffering=0) as file:
                        file.write(lacking)
                known[name] = [*_stamp(path), found[1].etag if found and whole == found[0] else ""]
                break
            self._write("journals", known)

    def bring_journals(self) -> None:
        for folder in JOURNALS:
            there = {one.path: one.etag for one in self.store.list(folder)}
            here = {self._name(path): _stamp(path) for path in self._files(folder)}
            known = self._read("journals")
            for name in sorted(there.keys() | here):
                is_same = name in here and known.get(name) == [*here[name], there.get(name)]
                if name.endswith(".jsonl") and not is_same:
                    self.merge(self.root / name)
            self.pull(folder)
            self.push(folder)

    def remove(self, path: Path) -> None:
        self.store.delete([self._name(path)])
        with self._lock:
            known = self._read("journals")
            if known.pop(self._name(path), None) is not None:
                self._write("journals", known)

    def remove_below(self, *places: str) -> None:
        for place in places:
            self.store.delete(one.path for one in self.store.list(place))

    # -------------------------------------------------------------------------------------------------------

    def _files(self, place: str) -> list[Path]:
        return sorted(
            path
            for path in (self.root / place).rglob("*")
            if path.is_file() and not path.name.startswith(".") and path.name not in _HERE
        )

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _read(self, place: str) -> Known:
        return json_object(bytes_of(self._state(place)) or b"") or {}

    def _write(self, place: str, known: Known) -> None:
        with atomic_write(self._state(place)) as temporary:
            temporary.write_text(json.dumps(known), "ascii")

    def _state(self, place: str) -> Path:
        return self.root / _STATE / f"{place.replace('/', '%')}.json"


def _is_journal(place: str, name: str) -> bool:
    return place in JOURNALS and name.endswith(".jsonl")


def _stamp(path: Path) -> list[int | str]:
    at = path.stat()
    return [at.st_size, at.st_mtime_ns]


def _with_lines_of(data: bytes, other: bytes) -> bytes:
    """Return the lines of a journal, and those of another copy of it that it lacks; torn ends are ended.

    >>> _with_lines_of(b"a\\nb", b"b\\nc\\n")
    b'a\\nb\\nc\\n'
    """
    there = set(data.split(b"\n"))
    new = [line for line in other.split(b"\n") if line.strip() and line not in there]
    if not new:
        return data
    ended = b"\n" if data and not data.endswith(b"\n") else b""
    return data + ended + b"".join(line + b"\n" for line in new)

"""Artifacts of a workspace on object storage. A commit uploads files, then the record, then the pointer."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.warehouse.artifact_records import (
    DAMAGED,
    RECORD,
    Artifact,
    bytes_of,
    file_damage,
    is_same,
    json_object,
    parse_record,
    pointed_identity,
    read_record,
    record_text,
)
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.locks import locked, try_lock
from rag_assay.warehouse.remote.store import DamagedObjectError, ObjectInfo, RemoteStore, at_once

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

GIGABYTES = 20.0
_LOCK = ".scratch.lock"
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
        with self._lock, locked(self.root / _LOCK, fcntl.LOCK_SH):
            if folder not in self._used or self._owner != os.getpid():
                os.write(self._noted(), f"{folder}\n".encode("utf-8", "surrogateescape"))
                self._used.add(folder)
                with suppress(OSError):
                    os.utime(folder)
            yield

    def make_room(self, size: int) -> None:
        """Let what was used longest ago go, where the scratch would be larger than its limit."""
        limit = limit_of_scratch()
        with self._lock:
            self._fetched = None if self._fetched is None else self._fetched + size
            if self._fetched is not None and self._fetched < limit / _STEP:
                return
            self._evict(max(limit - size, 0))
            self._fetched = 0.0

    def _evict(self, limit: float) -> None:
        with locked(self.root / _LOCK, fcntl.LOCK_EX):
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
        for record in self.root.glob(f"*/*/{RECORD}"):
            for folder in record.parent.glob("[!.]*"):
                if folder.is_dir():
                    with suppress(FileNotFoundError):
                        size = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
                        yield folder, folder.stat().st_mtime, size

    def _in_use(self) -> set[Path]:
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


def limit_of_scratch() -> float:
    try:
        return max(0.0, float(os.environ.get("ASSAY_SCRATCH_GB") or GIGABYTES)) * 1e9
    except ValueError as error:
        raise InputError("ASSAY_SCRATCH_GB: a number of gigabytes is needed") from error


MOMENT = 2.0  # seconds for which a listing is taken for what is there
LARGE = 8 * 1024 * 1024  # bytes of an artifact before whose upload it is asked whether somebody was faster
ABANDONED = 24 * 3600.0  # seconds after which files that no record names are those of a killed upload


@dataclass
class _Listing:
    """What a stage had when it was listed; ``read``: identities whose records were read since."""

    at: float
    pointers: dict[str, ObjectInfo]
    identities: set[str]
    read: set[str] = field(default_factory=set)


class RemoteArtifacts:
    """The artifacts of a workspace at a URL; one object a process, safe for its threads."""

    def __init__(self, home: Home, store: RemoteStore) -> None:
        self.home = home
        self.store = store
        self.scratch = Scratch(home)
        self._listings: dict[str, _Listing] = {}
        self._etags: dict[str, dict[str, object]] = {}
        self._lock = threading.RLock()

    # What is there -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        with self._lock:
            self._listings.clear()

    def keys(self, stage: str) -> list[str]:
        return sorted(self._listing(stage).pointers)

    def identities(self, stage: str) -> list[str]:
        found = sorted(self._listing(stage).identities)
        at_once(lambda identity: self.bring_record(stage, identity), found)
        return found

    def pointed_at(self, stage: str, key: str) -> float | None:
        found = self._listing(stage).pointers.get(key)
        return found.modified if found else None

    def bring_pointer(self, stage: str, key: str) -> None:
        if key not in self._listing(stage).pointers:
            self._pointer(stage, key).unlink(missing_ok=True)

    def bring_record(self, stage: str, identity: str, *, again: bool = False) -> None:
        listing = self._listing(stage)
        path = self._place(stage, identity) / RECORD
        if not again:
            known = read_record(path, stage, identity)
            if (known and known.complete) or identity in listing.read:
                return
            if identity not in listing.identities:
                path.unlink(missing_ok=True)
                return
        data = self.store.read(f"{stage}/{identity}/{RECORD}")
        listing.read.add(identity)
        if data is None or parse_record(data, stage, identity) is None:
            path.unlink(missing_ok=True)
        elif data != bytes_of(path):
            listing.identities.add(identity)
            _keep(path, data)

    def _listing(self, stage: str) -> _Listing:
        with self._lock:
            found = self._listings.get(stage)
            if found is None or time.monotonic() - found.at > MOMENT:
                found = self._listed(stage)
                self._listings[stage] = found
            return found

    def _listed(self, stage: str) -> _Listing:
        at = time.monotonic()
        prefix = f"pointers/{stage}/"
        entries = [one for one in self.store.list(f"pointers/{stage}") if one.path.endswith(".json")]
        pointers = {one.path.removeprefix(prefix).removesuffix(".json"): one for one in entries}
        listing = _Listing(at, pointers, set(self.store.folders(stage)))
        known = self._known(stage)
        changed = [
            key
            for key, one in pointers.items()
            if not one.etag or known.get(key) != one.etag or not self._pointer(stage, key).exists()
        ]
        at_once(lambda key: self._read_pointer(stage, key, listing), changed)
        self._etags[stage] = {key: one.etag for key, one in pointers.items()}
        if changed or len(known) != len(pointers):
            _keep(self._noted(stage), json.dumps(self._etags[stage]).encode())
        return listing

    def _known(self, stage: str) -> dict[str, object]:
        if stage not in self._etags:
            self._etags[stage] = json_object(bytes_of(self._noted(stage)) or b"") or {}
        return self._etags[stage]

    def _noted(self, stage: str) -> Path:
        return self.home.root / "pointers" / stage / ".etags"

    def _read_pointer(self, stage: str, key: str, listing: _Listing) -> None:
        data = self.store.read(f"pointers/{stage}/{key}.json")
        if data is None:
            return
        identity = pointed_identity(data, key)
        if identity is not None:
            place = self._place(stage, identity) / RECORD
            known = read_record(place, stage, identity)
            folder = (json_object(data) or {}).get("folder")
            if known is None or not known.complete or (folder is not None and folder != known.folder):
                found = self.store.read(f"{stage}/{identity}/{RECORD}")
                listing.read.add(identity)
                if found is not None and parse_record(found, stage, identity):
                    _keep(place, found)
        _keep(self._pointer(stage, key), data)

    # Files -------------------------------------------------------------------------------------------------

    def bring_newest(self, stage: str, identity: str) -> Path | None:
        self.bring_record(stage, identity)
        path = self._place(stage, identity) / RECORD
        record = read_record(path, stage, identity)
        try:
            return self.bring_files(record) if record else None
        except DamagedObjectError:  # another machine has built it again
            self.bring_record(stage, identity, again=True)
            newest = read_record(path, stage, identity)
            if newest is None or is_same(newest, record):
                raise
            return self.bring_files(newest)

    def bring_files(self, artifact: Artifact) -> Path:
        folder = self._place(artifact.stage, artifact.identity) / artifact.folder
        with self.scratch.using(folder):
            lacking = [name for name, size in artifact.files.items() if _size(folder / name) != size]
        if lacking:
            self.scratch.make_room(sum(artifact.files[name] for name in lacking))
            at_once(lambda name: self._fetch(artifact, folder, name), lacking)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def damage(self, artifact: Artifact) -> str | None:
        try:
            folder = self.bring_files(artifact)
            for name in artifact.files:
                if file_damage(folder, artifact, name):
                    self._fetch(artifact, folder, name)
        except DamagedObjectError as error:
            return str(error)
        return None

    def _fetch(self, artifact: Artifact, folder: Path, name: str) -> None:
        path = _paths(artifact)[name]
        if not self.store.download(path, folder / name, artifact.files[name], artifact.sums.get(name)):
            raise DamagedObjectError(f"{self.store.url}/{path} is missing")

    # Writing -----------------------------------------------------------------------------------------------

    def commit(
        self, artifact: Artifact, folder: Path, instead_of: Artifact | None, *, always: bool
    ) -> Artifact:
        """Upload the files of an artifact and record it; return it, or that of a builder who was faster."""
        base = f"{artifact.stage}/{artifact.identity}"
        paths = _paths(artifact)
        mark = self.home.root / ".conditional"
        if not mark.exists():
            self.store.refuse_unconditional()
            mark.touch()
        is_known = artifact.identity in self._listing(artifact.stage).identities
        large = sum(artifact.files.values()) > LARGE
        winner = None
        if large and not always:  # nothing is uploaded where another machine has committed meanwhile
            data = self.store.read(f"{base}/{RECORD}")
            there = data and parse_record(data, artifact.stage, artifact.identity)
            winner = there if there and there.complete and not is_same(there, instead_of) else None
        if winner is None:
            at_once(lambda name: self.store.upload(folder / name, paths[name]), paths)
            text = record_text(artifact).encode()
            winner = self._record(base, artifact, text, instead_of, always=always)
            if winner is not None:
                self.store.delete(paths.values())
        kept = winner or artifact
        with self.scratch.using(folder):
            listing = self._listing(artifact.stage)
            listing.identities.add(artifact.identity)
        self.scratch.make_room(sum(artifact.files.values()))
        _keep(self._place(artifact.stage, artifact.identity) / RECORD, record_text(kept).encode())
        if is_known:  # something lay there before
            self._tidy(base, kept)
        return kept

    def _record(
        self, base: str, artifact: Artifact, text: bytes, instead_of: Artifact | None, *, always: bool
    ) -> Artifact | None:
        path = f"{base}/{RECORD}"
        while True:
            found = self.store.read_with_version(path)
            there = found and parse_record(found[0], artifact.stage, artifact.identity)
            if there and there.complete and not always and not is_same(there, instead_of):
                return None if is_same(there, artifact) else there
            if self.store.replace(path, text, found[1]) if found else self.store.create(path, text):
                return None

    def _tidy(self, base: str, kept: Artifact) -> None:
        mine = {f"{base}/{RECORD}", f"{base}/{DAMAGED}", *_paths(kept).values()}
        old = [
            one.path
            for one in self.store.list(base)
            if one.path not in mine and time.time() - one.modified > ABANDONED
        ]
        self.store.delete(old)

    def point(self, stage: str, key: str, identity: str) -> None:
        path = f"pointers/{stage}/{key}.json"
        record = read_record(self._place(stage, identity) / RECORD, stage, identity)
        folder = record.folder if record else ""
        data = json.dumps({"identity": identity, "key": key, "folder": folder}).encode()
        etag = self.store.put(path, data)
        _keep(self._pointer(stage, key), data)
        with self._lock:
            self._known(stage)[key] = etag
            listing = self._listings.get(stage)
            if listing:
                listing.pointers[key] = ObjectInfo(path, len(data), etag, time.time())

    def unpoint(self, stage: str, keys: Iterable[str]) -> None:
        names = list(keys)
        self.store.delete(f"pointers/{stage}/{key}.json" for key in names)
        with self._lock:
            self._listings.pop(stage, None)

    def set_aside(self, artifact: Artifact) -> None:
        base = f"{artifact.stage}/{artifact.identity}"
        found = self.store.read_with_version(f"{base}/{RECORD}")
        there = found and parse_record(found[0], artifact.stage, artifact.identity)
        if found and there and is_same(there, artifact):
            self.store.put(f"{base}/{DAMAGED}", found[0])
            mark = json.dumps({"set_aside": artifact.created_at, "folder": artifact.folder}).encode()
            self.store.replace(f"{base}/{RECORD}", mark, found[1])

    def remove(self, stage: str, identity: str) -> None:
        base = f"{stage}/{identity}"
        self.store.delete([f"{base}/{RECORD}"])
        self.store.delete(one.path for one in self.store.list(base))
        with self._lock:
            self._listings.pop(stage, None)

    def _place(self, stage: str, identity: str) -> Path:
        return self.home.stage(stage) / identity

    def _pointer(self, stage: str, key: str) -> Path:
        return self.home.root / "pointers" / stage / f"{key}.json"


def _paths(artifact: Artifact) -> dict[str, str]:
    base = "/".join(filter(None, [artifact.stage, artifact.identity, artifact.folder]))
    return {name: f"{base}/{Path(name).as_posix()}" for name in artifact.files}


def _keep(path: Path, data: bytes) -> None:
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return -1

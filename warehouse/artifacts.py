"""The artifact store: what a stage stored for one partition key, found by the digest of its inputs.

`<home>/<stage>/<identity>/artifact.json` is the record of one result: which folder beside it holds the files,
their sizes and checksums, and a seal over the record itself. It is written last and at once, so a result is
whole or not there; builders write into folders of their own (`warehouse.attempts`), and of two that build the
same the first to commit wins. A record that is damaged, or one of whose files has gone or has another size,
does not count; other bytes are found by `damage`, which reads the files. A pointer
`<home>/pointers/<stage>/<key>.json` says which identity a readable key means now. Old results stay, so going
back to an old recipe computes nothing.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from warehouse.identity import sha256_file, sha256_text
from warehouse.parquet import replacing, temporary_beside
from warehouse.paths import Home

RECORD = "artifact.json"
DAMAGED = ".damaged.json"  # the record of a result that failed its check
BUILDING = ".build-"  # begins the name of a folder that is not committed yet


@dataclass(frozen=True)
class Artifact:
    """One stored result.

    identity: digest of everything that went into it; names its folder
    data_version: digest of what came out; a rebuild with equal content keeps it, so nothing after it is stale
    complete: False while some of its rows failed in a way that another try may mend
    meta: numbers for people and for the next stage (counts, seconds …), JSON only
    files: path below its folder -> bytes, as they were when it was committed
    measured: digest of what the data version leaves out: seconds, costs, reasons of failures
    sums: the same paths -> SHA-256; none in artifacts of earlier versions, which are known by size alone
    folder: where the files lie, below `<stage>/<identity>`; empty: there itself, as in earlier versions
    """

    stage: str
    key: str
    identity: str
    data_version: str
    complete: bool = True
    meta: dict[str, Any] = field(default_factory=dict)
    created_at: str = ""
    files: dict[str, int] = field(default_factory=dict)
    measured: str = ""
    sums: dict[str, str] = field(default_factory=dict)
    folder: str = ""


class ArtifactStore:
    """Finds and commits artifacts under one home folder."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def place(self, stage: str, identity: str) -> Path:
        """Where the record of an artifact lies (or will), and the folders of its builds."""
        return _below(self.home.stage(stage), identity)

    def folder(self, stage: str, identity: str) -> Path:
        """Where the files of an artifact lie; while none is committed, its `place`."""
        place = self.place(stage, identity)
        record = read_record(_below(place, RECORD), stage, identity)
        return place / record.folder if record else place

    def find(self, stage: str, identity: str) -> Artifact | None:
        """Return the committed artifact of that identity, whatever its key, or None."""
        place = self.place(stage, identity)
        artifact = read_record(_below(place, RECORD), stage, identity)
        return artifact if artifact and _has_its_files(artifact, _below(place, artifact.folder)) else None

    def current(self, stage: str, key: str) -> Artifact | None:
        """Return the artifact that ``key`` means now, or None when there is none (yet).

        A damaged pointer is made again: it means the newest one that was built for the key.
        """
        data = _bytes(self._pointer(stage, key))
        if data is None:
            return None
        identity = _pointed(data, key)
        if identity is not None:
            return self.find(stage, identity)
        built = [artifact for artifact in self.all(stage) if artifact.key == key]
        newest = max(built, key=lambda artifact: artifact.created_at, default=None)
        if newest is not None:
            self.point(stage, key, newest.identity)
        return newest

    def commit(self, artifact: Artifact) -> Artifact:
        """Record the files in the artifact's `folder` as whole, and let its key point at them.

        Whatever was recorded before is replaced.
        """
        folder = self.folder(artifact.stage, artifact.identity)
        place = self.place(artifact.stage, artifact.identity)
        name = "" if folder == place else folder.name
        stamped = _stamped(replace(artifact, folder=name), folder)
        with replacing(place / RECORD) as temporary:
            temporary.write_text(_record(stamped))
        self.point(artifact.stage, artifact.key, artifact.identity)
        return stamped

    def commit_once(
        self, artifact: Artifact, built: Path, instead_of: Artifact | None = None, *, always: bool = False
    ) -> Artifact:
        """Make what was built in a folder of one's own the artifact, unless another builder has been faster.

        A complete artifact that somebody else has committed meanwhile stays, is returned, and ``built`` is
        removed. An incomplete or damaged one is replaced.

        Args:
            built: a folder `BUILDING…` in the artifact's `place`.
            instead_of: the artifact that is built again.
            always: replace whatever is there, for what comes from outside is newer.
        """
        place = self.place(artifact.stage, artifact.identity)
        folder = place / built.name.removeprefix(BUILDING)
        stamped = _stamped(replace(artifact, folder=folder.name), built)
        built.rename(folder)
        with temporary_beside(place / RECORD) as temporary:
            temporary.write_text(_record(stamped))
            while True:
                there = None if always else self.find(artifact.stage, artifact.identity)
                if there and there.complete and not _is_same(there, instead_of):
                    shutil.rmtree(folder, ignore_errors=True)
                    stamped = there
                    break
                if _put(temporary, place / RECORD, create=there is None and not (place / RECORD).exists()):
                    break
        (place / DAMAGED).unlink(missing_ok=True)
        self.point(artifact.stage, artifact.key, artifact.identity)
        return replace(stamped, key=artifact.key)

    def point(self, stage: str, key: str, identity: str) -> None:
        """Let ``key`` mean ``identity`` from now on."""
        path = self._pointer(stage, key)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({"identity": identity, "key": key}))

    def pointed_at(self, stage: str, key: str) -> float | None:
        """Return when ``key`` was last made to mean something (seconds since the epoch); None: never."""
        try:
            return self._pointer(stage, key).stat().st_mtime
        except FileNotFoundError:
            return None

    def all(self, stage: str) -> list[Artifact]:
        """Return every committed artifact of a stage, old ones too."""
        names = sorted(path.parent.name for path in self.home.stage(stage).glob(f"*/{RECORD}"))
        found = (self.find(stage, name) for name in names)
        return [artifact for artifact in found if artifact]

    def keys(self, stage: str) -> list[str]:
        """Return the keys that point at something in a stage, sorted."""
        return sorted(path.stem for path in (self.home.root / "pointers" / stage).glob("*.json"))

    def damage(self, artifact: Artifact) -> str | None:
        """Read all files of an artifact; return what is wrong with the first bad one, None where none is."""
        folder = self.place(artifact.stage, artifact.identity) / artifact.folder
        found = (file_damage(folder, artifact, name) for name in artifact.files)
        return next((damage for damage in found if damage), None)

    def set_aside(self, artifact: Artifact) -> None:
        """Let a damaged artifact not count any longer, so that it is built again."""
        place = self.place(artifact.stage, artifact.identity)
        there = read_record(place / RECORD, artifact.stage, artifact.identity)
        if there and _is_same(there, artifact):  # else somebody has built it again meanwhile
            (place / RECORD).replace(place / DAMAGED)

    def damaged(self, stage: str) -> list[Artifact]:
        """Return the artifacts of a stage that were set aside and have not been built again."""
        paths = sorted(self.home.stage(stage).glob(f"*/{DAMAGED}"))
        found = (read_record(path, stage, path.parent.name) for path in paths)
        return [artifact for artifact in found if artifact]

    def broken(self, stage: str, identity: str) -> tuple[Artifact | None, str] | None:
        """Return the last record of an artifact that does not count, and why; None where there is none.

        The record itself is None where that is what is damaged.
        """
        place = self.place(stage, identity)
        for name in (RECORD, DAMAGED):
            if _bytes(place / name) is not None:
                record = read_record(place / name, stage, identity)
                damage = self.damage(record) if record else f"{name.lstrip('.')} is damaged"
                return record, damage or "it was damaged"
        return None

    def _pointer(self, stage: str, key: str) -> Path:
        return _below(self.home.root, "pointers", stage, f"{key}.json")


@lru_cache(maxsize=8_192)
def _below(folder: Path, *names: str) -> Path:
    """Join a path that a walk needs again and again; joining takes longer than looking what is there."""
    return folder.joinpath(*names)


def file_damage(folder: Path, artifact: Artifact, name: str) -> str | None:
    """Return what is wrong with one file of an artifact, None where it is as it was committed."""
    path = folder / name
    try:
        size = path.stat().st_size
        if size != artifact.files[name]:
            return f"{name} has {size} bytes instead of {artifact.files[name]}"
        if name in artifact.sums and sha256_file(path) != artifact.sums[name]:
            return f"{name} has other bytes than were written"
    except OSError as error:
        if error.errno not in _DAMAGE:
            raise
        return f"{name} cannot be read ({error.strerror})"
    return None


# A bad block of the disk, or something else in the place of a file. What the system refuses for a time (too
# many open files, rights) is no damage.
_DAMAGE = frozenset(
    {errno.ENOENT, errno.EIO, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
)


def _bytes(path: Path) -> bytes | None:
    """Return what a file holds, None where there is no file that can be read."""
    try:
        return path.read_bytes()
    except ValueError:  # a NUL in the path
        return None
    except OSError as error:
        if error.errno not in _DAMAGE:
            raise
        return None


def _pointed(data: bytes, key: str) -> str | None:
    """Return the identity that a pointer names; None for a damaged one, or that of another key."""
    try:
        found = json.loads(data)
        identity, owner = found["identity"], found.get("key", key)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return identity if isinstance(identity, str) and _is_name(identity) and owner == key else None


def _is_name(text: str) -> bool:
    return text not in {"", ".", ".."} and not set(text) & {"/", "\\", "\0"}


_SHAPE = {
    "stage": str,
    "key": str,
    "identity": str,
    "data_version": str,
    "complete": bool,
    "meta": dict,
    "created_at": str,
    "files": dict,
    "measured": str,
    "sums": dict,
    "folder": str,
}


_SETTLED = 100_000_000  # nanoseconds, many ticks of the clock that stamps files: what changes later shows
_REMEMBERED = 4_096  # records, of some kilobytes each
_records: dict[Path, tuple[tuple[int, int, int], Artifact]] = {}


def read_record(path: Path, stage: str, identity: str) -> Artifact | None:
    """Read the record of an artifact; None where there is none, or it is damaged or that of another one.

    A walk reads each some fifty times, so that what a file held is remembered until the file is another one.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None if _bytes(path) is None else _read_record(path, stage, identity)
    state = (found.st_ino, found.st_mtime_ns, found.st_size)
    known = _records.get(path)
    if known and known[0] == state and (known[1].stage, known[1].identity) == (stage, identity):
        return known[1]
    artifact = _read_record(path, stage, identity)
    if artifact and time.time_ns() - found.st_mtime_ns > _SETTLED:
        if len(_records) >= _REMEMBERED:
            _records.clear()
        _records[path] = state, artifact
    return artifact


def _read_record(path: Path, stage: str, identity: str) -> Artifact | None:
    data = _bytes(path)
    if data is None:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or ("seal" in found and found.pop("seal") != _seal(found)):
        return None
    known = {name: value for name, value in found.items() if name in _SHAPE}
    if any(not isinstance(value, _SHAPE[name]) for name, value in known.items()):
        return None
    try:
        artifact = Artifact(**known)
    except TypeError:  # something is lacking
        return None
    mine = (artifact.stage, artifact.identity) == (stage, identity)
    return artifact if mine and _is_plausible(artifact) else None


def _is_plausible(artifact: Artifact) -> bool:
    """Return whether what a record without a seal names can be files of its own."""
    paths = all(".." not in Path(name).parts and not Path(name).is_absolute() for name in artifact.files)
    sizes = all(type(size) is int for size in artifact.files.values())
    return paths and sizes and (not artifact.folder or _is_name(artifact.folder))


def _record(artifact: Artifact) -> str:
    """Return the text of a record, with a seal by which a damaged one is told."""
    plain = json.loads(json.dumps(asdict(artifact)))
    return json.dumps({**plain, "seal": _seal(plain)}, indent=1, sort_keys=True)


def _seal(plain: dict[str, Any]) -> str:
    return sha256_text(json.dumps(plain, sort_keys=True))[:20]


def _stamped(artifact: Artifact, folder: Path) -> Artifact:
    sizes = {name: (folder / name).stat().st_size for name in _files(folder)}
    return replace(
        artifact,
        created_at=artifact.created_at or datetime.now(UTC).isoformat(),
        files=sizes,
        sums={name: sha256_file(folder / name) for name in sizes},
    )


def _files(folder: Path) -> list[str]:
    """Return the paths of the files below a folder, the record and what is hidden aside."""
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(root).relative_to(folder)
        found += [str(below / name) for name in names if not name.startswith(".")]
    return sorted(name for name in found if name != RECORD)


def _has_its_files(artifact: Artifact, folder: Path) -> bool:
    """Return whether the files directly in the folder are there with their sizes; `damage` looks at all."""
    try:
        with os.scandir(folder) as entries:
            now = {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    except OSError as error:
        if error.errno not in _DAMAGE:
            raise
        now = {}
    return all(now.get(name) == size for name, size in artifact.files.items() if os.sep not in name)


def _is_same(one: Artifact, other: Artifact | None) -> bool:
    return other is not None and (one.created_at, one.folder) == (other.created_at, other.folder)


def _put(temporary: Path, path: Path, *, create: bool) -> bool:
    """Let a written file be ``path``; with ``create``, only if nobody has been faster. Say whether it is."""
    if create:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            pass
        else:
            return True
    temporary.replace(path)
    return True


assert set(_SHAPE) == {one.name for one in fields(Artifact)}  # noqa: S101 -- a new field has its type there

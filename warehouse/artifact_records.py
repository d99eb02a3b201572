"""The record of an artifact (`artifact.json`): what it says, how it is read and written, and its seal."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rag_assay.warehouse.identity import sha256_file, sha256_text

RECORD = "artifact.json"
DAMAGED = ".damaged.json"  # the record of a result that failed its check
BUILDING = ".build-"  # begins the name of a folder that is not committed yet


@dataclass(frozen=True)
class Artifact:
    """One stored result; `sums` are the SHA-256 of its files.

    identity: digest of everything that went into it; names its folder
    data_version: digest of what came out; a rebuild with equal content keeps it
    complete: False while rows failed in a way that another try may fix
    meta: numbers for people and for the next stage, JSON only
    files: path below its folder -> bytes when it was committed
    measured: digest of what the data version leaves out: seconds, costs, reasons of failures
    folder: where the files lie, below `<stage>/<identity>`; empty: there itself
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


def file_damage(folder: Path, artifact: Artifact, name: str) -> str | None:
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


def bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except ValueError:  # a NUL in the path
        return None
    except OSError as error:
        if error.errno not in _DAMAGE:
            raise
        return None


def json_object(data: bytes) -> dict[str, Any] | None:
    """None: it is no JSON, or no object."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):  # the latter: thousands of brackets in each other
        return None
    return found if isinstance(found, dict) else None


def pointed_identity(data: bytes, key: str) -> str | None:
    found = json_object(data) or {}
    identity, owner = found.get("identity"), found.get("key", key)
    return identity if isinstance(identity, str) and _is_name(identity) and owner == key else None


def _is_name(text: str) -> bool:
    return text not in {"", ".", ".."} and not set(text) & {"/", "\\", "\0"}


_ARTIFACT = TypeAdapter(Artifact)
_SETTLED = 100_000_000  # nanoseconds, many ticks of the clock that stamps files: what changes later shows
_REMEMBERED = 4_096  # records, of some kilobytes each
_records: dict[Path, tuple[tuple[int, int, int], Artifact]] = {}


def read_record(path: Path, stage: str, identity: str) -> Artifact | None:
    """None for a damaged record, or another artifact's. Cached: a run reads each some fifty times."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return parse_record(bytes_of(path) or b"", stage, identity)
    state = (found.st_ino, found.st_mtime_ns, found.st_size)
    known = _records.get(path)
    if known and known[0] == state and (known[1].stage, known[1].identity) == (stage, identity):
        return known[1]
    artifact = parse_record(bytes_of(path) or b"", stage, identity)
    if artifact and time.time_ns() - found.st_mtime_ns > _SETTLED:
        if len(_records) >= _REMEMBERED:
            _records.clear()
        _records[path] = state, artifact
    return artifact


def parse_record(data: bytes, stage: str, identity: str) -> Artifact | None:
    try:
        found = json.loads(data)
        if found.pop("seal") != _seal(found):
            return None
        artifact = _ARTIFACT.validate_json(data, strict=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    names = [Path(name) for name in artifact.files]
    is_plausible = all(".." not in name.parts and not name.is_absolute() for name in names) and (
        not artifact.folder or _is_name(artifact.folder)
    )
    mine = (artifact.stage, artifact.identity) == (stage, identity)
    return artifact if mine and is_plausible else None


def record_text(artifact: Artifact) -> str:
    plain = json.loads(json.dumps(asdict(artifact)))
    return json.dumps({**plain, "seal": _seal(plain)}, indent=1, sort_keys=True)


def _seal(plain: dict[str, Any]) -> str:
    return sha256_text(json.dumps(plain, sort_keys=True))[:20]


def stamp_artifact(artifact: Artifact, folder: Path) -> Artifact:
    sizes = {name: (folder / name).stat().st_size for name in _files(folder)}
    return replace(
        artifact,
        created_at=artifact.created_at or datetime.now(UTC).isoformat(),
        files=sizes,
        sums={name: sha256_file(folder / name) for name in sizes},
    )


def _files(folder: Path) -> list[str]:
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(root).relative_to(folder)
        found += [str(below / name) for name in names if not name.startswith(".")]
    return sorted(name for name in found if name != RECORD)


def has_its_files(artifact: Artifact, folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            now = {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    except OSError as error:
        if error.errno not in _DAMAGE:
            raise
        now = {}
    return all(now.get(name) == size for name, size in artifact.files.items() if os.sep not in name)


def is_same(one: Artifact, other: Artifact | None) -> bool:
    return other is not None and (one.created_at, one.folder) == (other.created_at, other.folder)

"""Artifacts: what a stage stored for one partition key, found by what went into it.

A folder `<home>/<stage>/<identity>/` holds the files of one result and, written last, an `artifact.json`:
without that file, or when one of the others has gone or has another size, the folder does not count. A
pointer `<home>/pointers/<stage>/<key>.json` says which identity a readable key means now. Old folders
stay, so going back to an old recipe computes nothing.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warehouse.parquet import replacing
from warehouse.paths import Home


@dataclass(frozen=True)
class Artifact:
    """One stored result.

    identity: digest of everything that went into it; names its folder
    data_version: digest of what came out; a rebuild with equal content keeps it, so nothing after it is stale
    complete: False while some of its rows failed in a way that another try may mend
    meta: numbers for people and for the next stage (counts, seconds …), JSON only
    files: name -> bytes of the files beside `artifact.json`, as they were when it was committed
    measured: digest of what the data version leaves out: seconds, costs, reasons of failures
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


class ArtifactStore:
    """Finds and commits artifacts under one home folder."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def folder(self, stage: str, identity: str) -> Path:
        """Where the files of an artifact lie (or will)."""
        return self.home.stage(stage) / identity

    def find(self, stage: str, identity: str) -> Artifact | None:
        """Return the committed artifact of that identity, whatever its key, or None."""
        return _read(self.folder(stage, identity) / "artifact.json")

    def current(self, stage: str, key: str) -> Artifact | None:
        """Return the artifact that ``key`` means now, or None when there is none (yet)."""
        try:
            identity = json.loads(self._pointer(stage, key).read_text())["identity"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        return self.find(stage, str(identity))

    def commit(self, artifact: Artifact) -> Artifact:
        """Mark the files in the artifact's folder as whole and let its key point at them."""
        path = self.folder(artifact.stage, artifact.identity) / "artifact.json"
        stamped = replace(
            artifact,
            created_at=artifact.created_at or datetime.now(UTC).isoformat(),
            files=_sizes(path.parent),
        )
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(asdict(stamped), indent=1, sort_keys=True))
        self.point(artifact.stage, artifact.key, artifact.identity)
        return stamped

    def point(self, stage: str, key: str, identity: str) -> None:
        """Let ``key`` mean ``identity`` from now on."""
        path = self._pointer(stage, key)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({"identity": identity}))

    def pointed_at(self, stage: str, key: str) -> float | None:
        """Return when ``key`` was last made to mean something (seconds since the epoch); None: never."""
        try:
            return self._pointer(stage, key).stat().st_mtime
        except FileNotFoundError:
            return None

    def all(self, stage: str) -> list[Artifact]:
        """Return every committed artifact of a stage, old ones too."""
        found = (_read(path) for path in sorted(self.home.stage(stage).glob("*/artifact.json")))
        return [artifact for artifact in found if artifact]

    def keys(self, stage: str) -> list[str]:
        """Return the keys that point at something in a stage, sorted."""
        return sorted(path.stem for path in (self.home.root / "pointers" / stage).glob("*.json"))

    def _pointer(self, stage: str, key: str) -> Path:
        return self.home.root / "pointers" / stage / f"{key}.json"


def _read(path: Path) -> Artifact | None:
    try:
        artifact = Artifact(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    now = _sizes(path.parent)
    return artifact if all(now.get(name) == size for name, size in artifact.files.items()) else None


def _sizes(folder: Path) -> dict[str, int]:
    """Return name -> bytes of the files of an artifact, `artifact.json` and temporary ones aside."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if entry.is_file() and not entry.name.startswith(".")]
        return {entry.name: entry.stat().st_size for entry in files if entry.name != "artifact.json"}

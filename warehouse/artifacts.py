"""The artifact store: what a stage stored for one partition key, found by the digest of its inputs.

`<home>/<stage>/<identity>/artifact.json` is written last and at once; the first of two builders wins.
`<home>/pointers/<stage>/<key>.json` says which identity a key means now. Old results stay.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.warehouse.artifact_records import (
    BUILDING,
    DAMAGED,
    RECORD,
    Artifact,
    bytes_of,
    file_damage,
    has_its_files,
    is_same,
    pointed_identity,
    read_record,
    record_text,
    stamp_artifact,
)
from rag_assay.warehouse.atomic_write import atomic_write, temporary_beside
from rag_assay.warehouse.remote import artifacts_of

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

__all__ = ["Artifact", "ArtifactStore"]


class ArtifactStore:
    """Finds and commits the artifacts of a workspace, in a folder or at a URL (`remote.artifacts`)."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._remote = artifacts_of(home)

    def refresh(self) -> None:
        if self._remote:
            self._remote.refresh()

    def place(self, stage: str, identity: str) -> Path:
        return _below(self.home.stage(stage), identity)

    def folder(self, stage: str, identity: str) -> Path:
        place = self.place(stage, identity)
        if self._remote:
            return self._remote.bring_newest(stage, identity) or place
        record = read_record(_below(place, RECORD), stage, identity)
        return place / record.folder if record else place

    def files_of(self, artifact: Artifact) -> Path:
        if self._remote:
            from rag_assay.warehouse.remote.store import DamagedObjectError

            with suppress(DamagedObjectError):
                return self._remote.bring_files(artifact)
        return self.place(artifact.stage, artifact.identity) / artifact.folder

    def find(self, stage: str, identity: str, *, now: bool = False) -> Artifact | None:
        place = self.place(stage, identity)
        if self._remote:
            self._remote.bring_record(stage, identity, again=now)
            return read_record(_below(place, RECORD), stage, identity)
        artifact = read_record(_below(place, RECORD), stage, identity)
        return artifact if artifact and has_its_files(artifact, _below(place, artifact.folder)) else None

    def current(self, stage: str, key: str) -> Artifact | None:
        """A damaged pointer is made again: it means the newest artifact that was built for the key."""
        if self._remote:
            self._remote.bring_pointer(stage, key)
        data = bytes_of(self._pointer(stage, key))
        if data is None:
            return None
        identity = pointed_identity(data, key)
        if identity is not None:
            return self.find(stage, identity)
        built = [artifact for artifact in self.all(stage) if artifact.key == key]
        newest = max(built, key=lambda artifact: artifact.created_at, default=None)
        if newest is not None:
            self.point(stage, key, newest.identity)
        return newest

    def commit(self, artifact: Artifact) -> Artifact:
        place = self.place(artifact.stage, artifact.identity)
        record = read_record(place / RECORD, artifact.stage, artifact.identity)
        name = record.folder if record else ""
        whole = stamp_artifact(replace(artifact, folder=name), place / name)
        if self._remote:
            self._remote.commit(whole, place / name, None, always=True)
        else:
            with atomic_write(place / RECORD) as temporary:
                temporary.write_text(record_text(whole))
        self.point(artifact.stage, artifact.key, artifact.identity)
        return whole

    def commit_once(
        self, artifact: Artifact, built: Path, instead_of: Artifact | None = None, *, always: bool = False
    ) -> Artifact:
        """The first builder wins, unless its artifact is incomplete or damaged; ``built`` goes."""
        place = self.place(artifact.stage, artifact.identity)
        folder = place / built.name.removeprefix(BUILDING)
        whole = stamp_artifact(replace(artifact, folder=folder.name), built)
        built.rename(folder)
        if self._remote:
            kept = self._remote.commit(whole, folder, instead_of, always=always)
        else:
            kept = self._recorded(whole, instead_of, always=always)
        if kept.folder != folder.name:
            shutil.rmtree(folder, ignore_errors=True)
        (place / DAMAGED).unlink(missing_ok=True)
        self.point(artifact.stage, artifact.key, artifact.identity)
        return replace(kept, key=artifact.key)

    def _recorded(self, whole: Artifact, instead_of: Artifact | None, *, always: bool) -> Artifact:
        path = self.place(whole.stage, whole.identity) / RECORD
        with temporary_beside(path) as temporary:
            temporary.write_text(record_text(whole))
            while True:
                there = None if always else self.find(whole.stage, whole.identity)
                if there and there.complete and not is_same(there, instead_of):
                    return there
                if _put(temporary, path, create=there is None and not path.exists()):
                    return whole

    def point(self, stage: str, key: str, identity: str) -> None:
        if self._remote:
            self._remote.point(stage, key, identity)
            return
        path = self._pointer(stage, key)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"identity": identity, "key": key}))

    def unpoint(self, stage: str, keys: Iterable[str]) -> None:
        names = list(keys)
        if self._remote:
            self._remote.unpoint(stage, names)
        for key in names:
            self._pointer(stage, key).unlink(missing_ok=True)

    def pointed_at(self, stage: str, key: str) -> float | None:
        if self._remote:
            return self._remote.pointed_at(stage, key)
        try:
            return self._pointer(stage, key).stat().st_mtime
        except FileNotFoundError:
            return None

    def all(self, stage: str) -> list[Artifact]:
        if self._remote:
            names = self._remote.identities(stage)
        else:
            names = sorted(path.parent.name for path in self.home.stage(stage).glob(f"*/{RECORD}"))
        found = (self.find(stage, name) for name in names)
        return [artifact for artifact in found if artifact]

    def keys(self, stage: str) -> list[str]:
        if self._remote:
            return self._remote.keys(stage)
        return sorted(path.stem for path in (self.home.root / "pointers" / stage).glob("*.json"))

    def damage(self, artifact: Artifact) -> str | None:
        if self._remote:
            return self._remote.damage(artifact)
        folder = self.place(artifact.stage, artifact.identity) / artifact.folder
        found = (file_damage(folder, artifact, name) for name in artifact.files)
        return next((damage for damage in found if damage), None)

    def set_aside(self, artifact: Artifact) -> None:
        if self._remote:
            self._remote.set_aside(artifact)
        place = self.place(artifact.stage, artifact.identity)
        there = read_record(place / RECORD, artifact.stage, artifact.identity)
        if there and is_same(there, artifact):  # else somebody has built it again meanwhile
            (place / RECORD).replace(place / DAMAGED)

    def remove(self, stage: str, identity: str) -> None:
        if self._remote:
            self._remote.remove(stage, identity)
        shutil.rmtree(self.place(stage, identity), ignore_errors=True)

    def damaged(self, stage: str) -> list[Artifact]:
        paths = sorted(self.home.stage(stage).glob(f"*/{DAMAGED}"))
        found = (read_record(path, stage, path.parent.name) for path in paths)
        return [artifact for artifact in found if artifact]

    def broken(self, stage: str, identity: str) -> tuple[Artifact | None, str] | None:
        """Return the last record of an artifact that does not count, and why; None where there is none."""
        place = self.place(stage, identity)
        for name in (RECORD, DAMAGED):
            if bytes_of(place / name) is not None:
                record = read_record(place / name, stage, identity)
                damage = self.damage(record) if record else f"{name.lstrip('.')} is damaged"
                return record, damage or "it was damaged"
        return None

    def _pointer(self, stage: str, key: str) -> Path:
        return _below(self.home.root, "pointers", stage, f"{key}.json")


@lru_cache(maxsize=16_384)
def _below(folder: Path, *names: str) -> Path:
    return folder.joinpath(*names)


def _put(temporary: Path, path: Path, *, create: bool) -> bool:
    if not create:
        temporary.replace(path)
        return True
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        temporary.replace(path)
    return True


class StillArtifacts(ArtifactStore):
    """Remembers what it found for each key until it is refreshed: views ask 15 times for each artifact."""

    def __init__(self, home: Home) -> None:
        super().__init__(home)
        self._found: dict[tuple[str, str], Artifact | None] = {}

    def refresh(self) -> None:
        super().refresh()
        self._found.clear()

    def current(self, stage: str, key: str) -> Artifact | None:
        place = (stage, key)
        if place not in self._found:
            self._found[place] = self._look_up(stage, key)
        return self._found[place]

    def _look_up(self, stage: str, key: str) -> Artifact | None:
        return super().current(stage, key)

    def point(self, stage: str, key: str, identity: str) -> None:
        super().point(stage, key, identity)
        self._found.pop((stage, key), None)

    def set_aside(self, artifact: Artifact) -> None:
        super().set_aside(artifact)
        same = (artifact.stage, artifact.identity)
        self._found = {
            place: one
            for place, one in self._found.items()
            if one is None or (one.stage, one.identity) != same
        }

"""A private folder for each attempt to build an artifact, and a lock for builds of the same one."""

from __future__ import annotations

import io
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree

import polars as pl

from rag_assay.warehouse.artifact_records import BUILDING, RECORD, Artifact, file_damage, read_record
from rag_assay.warehouse.atomic_write import TEMPORARY, temporary_beside
from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.cooperative_scheduler import release_turn
from rag_assay.warehouse.identity import sha256_bytes
from rag_assay.warehouse.locks import try_lock


class Pieces:
    """Rows by the identity of their inputs, a file each; a torn one does not count."""

    def __init__(self, folder: Path, name: str = ".pieces") -> None:
        self._folder = folder / name

    def find(self, wanted: Mapping[str, str]) -> dict[str, pl.DataFrame]:
        found = {name: self._read(identity) for name, identity in wanted.items()}
        return {name: rows for name, rows in found.items() if rows is not None}

    def _read(self, identity: str) -> pl.DataFrame | None:
        for path in self._folder.glob(f"{identity}.*.parquet"):
            data = path.read_bytes()
            if path.name == _name(identity, data):
                return pl.read_parquet(io.BytesIO(data))
        return None

    def add(self, identity: str, rows: pl.DataFrame) -> None:
        buffer = io.BytesIO()
        rows.write_parquet(buffer, compression="uncompressed")
        data = buffer.getvalue()
        path = self._folder / _name(identity, data)
        with temporary_beside(path) as temporary:
            temporary.write_bytes(data)
            temporary.replace(path)

    def clear(self) -> None:
        rmtree(self._folder, ignore_errors=True)


def _name(identity: str, data: bytes) -> str:
    return f"{identity}.{sha256_bytes(data)[:20]}.parquet"


REPLACED = 3600.0  # seconds that the files of a replaced artifact stay, for those who still read them


@contextmanager
def turn(place: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold a lock in the block; yield whether it holds: not where the file system has no locks."""
    place.mkdir(parents=True, exist_ok=True)
    handle = os.open(place, os.O_RDONLY)
    try:
        notified = False
        while (locked := try_lock(handle)) is False:
            if not notified:
                waiting()
                notified = True
            with release_turn():  # who builds it may be a thread of this process
                cancellable_sleep(0.1)
        yield bool(locked)  # where there are no locks, the first to commit wins
    finally:
        os.close(handle)


@contextmanager
def attempt(place: Path, *, resumes: bool, alone: bool = True) -> Iterator[Path]:
    folder = place / f"{BUILDING}{uuid.uuid4().hex[:12]}"
    if alone:
        _take_over(place, folder, resumes=resumes)
    _remove_replaced(place)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if not resumes or not any(folder.glob("*")):
            shutil.rmtree(folder, ignore_errors=True)


def _take_over(place: Path, folder: Path, *, resumes: bool) -> None:
    left = sorted(place.glob(f"{BUILDING}*"), key=_modified)
    if left and resumes:
        with suppress(FileNotFoundError):
            left.pop().rename(folder)
            for path in folder.rglob(TEMPORARY):
                path.unlink(missing_ok=True)
    for path in left:
        shutil.rmtree(path, ignore_errors=True)


def _remove_replaced(place: Path) -> None:
    record = read_record(place / RECORD, place.parent.name, place.name)
    if record is None or not record.folder:
        return
    for path in place.glob("[!.]*"):
        if path.name not in {RECORD, record.folder} and time.time() - _modified(path) > REPLACED:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def seed(folder: Path, source: Path, artifact: Artifact) -> None:
    """Copy the good files of an incomplete or damaged artifact into the folder in which it is built again."""
    for name in artifact.files:
        if os.sep not in name and not (folder / name).exists() and not file_damage(source, artifact, name):
            shutil.copy2(source / name, folder / name)

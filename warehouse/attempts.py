"""A private folder for each attempt to build an artifact, and a lock for builds of the same one.

A build waits for another one of the same artifact: nothing is computed or paid twice; where the file
system knows no locks, two may build at once, each in its own folder, and the first to commit wins. What a
killed attempt has left is carried on by the next one where the stage can use it, and removed where not.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag_assay.warehouse.artifact_records import BUILDING, RECORD, Artifact, file_damage, read_record
from rag_assay.warehouse.atomic_write import TEMPORARY
from rag_assay.warehouse.cancellation import cancellable_sleep
from rag_assay.warehouse.cooperative_scheduler import release_turn
from rag_assay.warehouse.locks import try_lock

REPLACED = 3600.0  # seconds that the files of a replaced artifact stay, for those who still read them


@contextmanager
def turn(place: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the build lock of ``place`` in the block; a killed process releases it.

    Yields whether that is certain: not where the file system knows no locks.

    Args:
        waiting: called once when it has to be waited for.
    """
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
    """Give an empty folder in ``place`` to build in; whatever is not committed at the end is removed.

    Args:
        resumes: the stage can go on with what an earlier attempt has left: the folder begins with it, and
            stays when the attempt fails.
        alone: no other build is here, so that what is not committed was left by killed attempts.
    """
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
    """Let ``folder`` be what a killed attempt has left, where that is of use; remove the others."""
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
    """Copy the good files of an incomplete or damaged artifact into the folder in which it is built again.

    source: where they lie
    """
    for name in artifact.files:
        if os.sep not in name and not (folder / name).exists() and not file_damage(source, artifact, name):
            shutil.copy2(source / name, folder / name)

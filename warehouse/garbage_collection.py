"""Removes what killed processes, told by free locks in `<home>/working`, left in a workspace."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag_assay.warehouse.artifact_records import BUILDING
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.processes import machine_mark, runs

QUIET = 600.0  # seconds without a write after which a temporary file of a process unknown here is left over
FORGOTTEN = 24 * 3600.0  # seconds after which no process resumes the build of a killed one


@contextmanager
def marked(home: Home) -> Iterator[int]:
    """Mark this process as working in the block; yield how many left files were removed."""
    folder = home.root / "working"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}.{uuid.uuid4().hex[:8]}.{machine_mark()}"
    with path.open("w") as mine:
        with suppress(OSError):  # a file system without locks: its marks never look free
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        dead, alive = _marks(folder, path)
        try:
            removed = sweep(home, set(dead.values()), alive) if dead else 0
            for one in dead:
                one.unlink(missing_ok=True)
            yield removed
        finally:
            path.unlink(missing_ok=True)


def _marks(folder: Path, mine: Path) -> tuple[dict[Path, int], set[int]]:
    """Return the marks of killed processes with their numbers, and the numbers of those that live."""
    dead: dict[Path, int] = {}
    alive = {os.getpid()}
    for path in folder.iterdir():
        number, _, rest = path.name.partition(".")
        machine = rest.partition(".")[2]  # empty: of an earlier version
        if path == mine or not number.isdecimal():
            continue
        with suppress(FileNotFoundError), path.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if machine in ("", machine_mark()):
                    dead[path] = int(number)
                elif _age(path) > FORGOTTEN:
                    path.unlink(missing_ok=True)
                else:
                    alive.add(int(number))
            except OSError:
                alive.add(int(number))
    return dead, alive


def sweep(home: Home, dead: set[int], alive: set[int]) -> int:
    """Remove what killed processes have left; return how many files and folders that were."""
    removed = 0
    elsewhere = {home.models, home.dagster, home.crawls}
    for root, folders, names in os.walk(home.root):
        folders[:] = [name for name in folders if Path(root, name) not in elsewhere]
        for path in (Path(root, name) for name in names):
            if _is_left(path, dead, alive):
                with suppress(OSError):
                    path.unlink()
                    removed += 1
        for path in (Path(root, name) for name in folders if name.startswith(BUILDING)):
            if _age(path) > FORGOTTEN:
                shutil.rmtree(path, ignore_errors=True)
                removed += 1
    return removed


_TEMPORARY = re.compile(r"\..+\.(?P<process>\d+)\.[0-9a-f]{8}\.tmp(\.wal)?")


def _is_left(path: Path, dead: set[int], alive: set[int]) -> bool:
    named = _TEMPORARY.fullmatch(path.name)
    process = int(named["process"]) if named else None
    if process is None or process in alive:
        return False
    if process in dead:
        return True
    return _age(path) > (FORGOTTEN if runs(process) else QUIET)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0

"""Processes that answer questions: whether one that is named in a file still runs.

A home may be shared by several machines. What runs on another one can be seen from here only where the file
system they share knows locks.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from rag_assay.warehouse.locks import try_lock
from rag_assay.warehouse.machine import machine_mark
from rag_assay.warehouse.paths import Home

ELSEWHERE = 900.0  # seconds after which a process of another machine, of which nothing is seen, has ended

_lock = threading.Lock()
_own: dict[Path, tuple[str, int]] = {}


def this_process(home: Home) -> str:
    """Return the name of this process in the files of a home; it is taken when first asked for.

    A file of that name is locked until the process ends, whatever ends it.
    """
    folder = _folder(home)
    with _lock:
        if folder not in _own:
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{os.getpid()}-{token_hex(4)}-{machine_mark()}"
            handle = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
            try_lock(handle)
            _own[folder] = name, handle
        return _own[folder][0]


def is_running(home: Home, name: str, at: datetime) -> bool:
    """Return whether the process of a name still runs.

    One whose file is gone, or locked by nobody, has ended; where the file system knows no locks, its number
    tells. One of another machine whose lock is not seen is taken to run for `ELSEWHERE` seconds.

    at: when it was last known to run
    """
    folder = _folder(home)
    if folder in _own and _own[folder][0] == name:
        return True
    if not name or Path(name).name != name:
        return False
    elsewhere = _is_elsewhere(name)
    perhaps = elsewhere and (datetime.now(UTC) - at).total_seconds() < ELSEWHERE
    try:
        handle = os.open(folder / name, os.O_RDWR)
    except OSError:
        return perhaps
    try:
        locked = try_lock(handle)
        if elsewhere:
            return locked is False or perhaps
        if locked:
            with suppress(OSError):
                (folder / name).unlink()
        return not locked if locked is not None else _has_number(name)
    finally:
        os.close(handle)


def _is_elsewhere(name: str) -> bool:
    """Return whether a name is of another machine; names of earlier versions say nothing of machines.

    >>> _is_elsewhere("12-0a1b2c3d-000000000000"), _is_elsewhere("12-0a1b2c3d")
    (True, False)
    """
    return name.count("-") == 2 and name.rpartition("-")[2] != machine_mark()


def _has_number(name: str) -> bool:
    try:
        os.kill(int(name.partition("-")[0]), 0)
    except (ValueError, ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _folder(home: Home) -> Path:
    return home.chats / ".processes"

"""Processes that answer questions: whether one that is named in a file still runs."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from warehouse.locks import try_lock
from warehouse.paths import Home

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
            name = f"{os.getpid()}-{token_hex(4)}"
            handle = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
            try_lock(handle)
            _own[folder] = name, handle
        return _own[folder][0]


def is_running(home: Home, name: str) -> bool:
    """Return whether the process of a name still runs.

    One whose file is gone, or locked by nobody, has ended; where the file system knows no
    locks, its number tells.
    """
    folder = _folder(home)
    if folder in _own and _own[folder][0] == name:
        return True
    if not name or Path(name).name != name:
        return False
    try:
        handle = os.open(folder / name, os.O_RDWR)
    except OSError:
        return False
    try:
        locked = try_lock(handle)
        if locked:
            with suppress(OSError):
                (folder / name).unlink()
        return not locked if locked is not None else _has_number(name)
    finally:
        os.close(handle)


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

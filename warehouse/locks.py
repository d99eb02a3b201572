"""Locks that a killed process gives back by itself."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def try_lock(handle: int, kind: int = fcntl.LOCK_EX) -> bool | None:
    """Try to lock an open file or folder; return None where the file system has no locks."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def try_lock_byte(handle: int, at: int) -> bool | None:
    """Try to lock one byte of an open file; None without locks. Any close of the file gives it back."""
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


def unlock_byte(handle: int, at: int) -> None:
    fcntl.lockf(handle, fcntl.LOCK_UN, 1, at)


@contextmanager
def locked(path: Path, kind: int = fcntl.LOCK_EX, *, wait: bool = True) -> Iterator[bool | None]:
    """Hold the lock of a file in the block; yield False: another has it, None: there are no locks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        held = try_lock(file.fileno(), kind)
        if held is False and wait:
            fcntl.flock(file, kind)
            held = True
        yield held

"""Locks that a killed process gives back by itself."""

from __future__ import annotations

import fcntl


def try_lock(handle: int) -> bool | None:
    """Try to lock an open file or folder; return None where the file system knows no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True

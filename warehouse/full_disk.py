"""A full disk, told as one whatever library has met it."""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
LITTLE = 1024 * 1024
"""Bytes that are free on a disk that is as good as full: polars then calls its own file torn."""


def is_full(error: BaseException, place: Path) -> bool:
    """Return whether an error that came while something was written below a place is that of a full disk.

    >>> is_full(OSError(errno.ENOSPC, "No space left on device"), Path())
    True
    """
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    if any(isinstance(one, OSError) and one.errno in FULL for one in causes):
        return True
    if any(f"os error {number}" in str(one) for one in causes for number in FULL):
        return True
    with suppress(OSError):
        return shutil.disk_usage(place).free < LITTLE
    return False


def sentence_of(error: BaseException, place: Path) -> str:
    return (
        f"the disk of {place} is full ({type(error).__name__}: {error}). Free some space "
        "or use another folder, then run again; stored results are intact"
    )

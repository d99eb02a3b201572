"""A lock that lets one crawl of a source run at a time."""

from __future__ import annotations

import fcntl
import os
from io import TextIOWrapper
from pathlib import Path

from rag_assay.warehouse.errors import LockedError


def locked(path: Path, source: str) -> TextIOWrapper:
    """Return the locked file of a source, which names the process that holds it.

    Raises:
        LockedError: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+", encoding="ascii", errors="replace")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(20).strip()
        file.close()
        who = f"process {holder}" if holder else "another process"
        raise LockedError(
            f"The source `{source}` is being crawled by {who}. Wait for it to end, or stop it."
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file

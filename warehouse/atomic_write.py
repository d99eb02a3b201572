"""Writes files atomically: a temporary one beside the place, flushed, that takes it at once."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".*.tmp"  # what `temporary_beside` names its files
ABANDONED = 24 * 3600.0  # seconds after which a file that was being written is one of a killed process


@contextmanager
def temporary_beside(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, or in ``folder``; it is removed when the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = (folder or path.parent) / f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place when the block ends well. It is flushed
    before the rename: after a crash ``path`` holds the old or the new content, never a part.
    """
    with temporary_beside(path) as temporary:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)


def write_file(path: Path, content: str | bytes) -> Path:
    """Write bytes or text (UTF-8) atomically; return the path."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def sweep(folder: Path, pattern: str = ".*.tmp") -> None:
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()

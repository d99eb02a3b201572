"""Copies of what lies elsewhere, in the workspace: a later reading fetches only what has changed."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import home


@contextmanager
def copy_of(what: str) -> Iterator[Path]:
    """Give the folder of a copy to one process at a time; it may be deleted at any other time."""
    folder = home().root / "copies" / digest(what)[:32]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder

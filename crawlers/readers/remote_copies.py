"""Copies of repositories and buckets in the workspace: a later run fetches only what has changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.locks import locked
from rag_assay.warehouse.paths import home


@contextmanager
def copy_of(what: str) -> Iterator[Path]:
    """Lock the folder of a copy for one process. It may be deleted whenever it is not locked."""
    folder = home().root / "copies" / digest(what)[:32]
    with locked(folder / "lock"):
        yield folder

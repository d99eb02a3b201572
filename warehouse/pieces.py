"""Pieces of what a build has computed and not committed yet: a killed build goes on behind the last one."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

import polars as pl

from rag_assay.warehouse.atomic_write import temporary_beside
from rag_assay.warehouse.identity import sha256_bytes


class Pieces:
    """Rows by the identity of what they were computed from, a file each, in a folder of the build's own.

    A file is named by that identity and by its own checksum, so that one that a kill has torn counts for
    nothing.

    Args:
        folder: that of the build.
        name: of the folder in it, which begins with a dot.
    """

    def __init__(self, folder: Path, name: str = ".pieces") -> None:
        self._folder = folder / name

    def find(self, wanted: Mapping[str, str]) -> dict[str, pl.DataFrame]:
        """Return the rows of those of the wanted pieces (name -> identity) that are whole."""
        if not self._folder.is_dir():
            return {}
        found = {name: self._read(identity) for name, identity in wanted.items()}
        return {name: rows for name, rows in found.items() if rows is not None}

    def _read(self, identity: str) -> pl.DataFrame | None:
        for path in self._folder.glob(f"{identity}.*.parquet"):
            data = path.read_bytes()
            if path.name == _name(identity, data):
                return pl.read_parquet(io.BytesIO(data))
        return None

    def add(self, identity: str, rows: pl.DataFrame) -> None:
        buffer = io.BytesIO()
        rows.write_parquet(buffer, compression="uncompressed")
        data = buffer.getvalue()
        path = self._folder / _name(identity, data)
        with temporary_beside(path) as temporary:
            temporary.write_bytes(data)
            temporary.replace(path)

    def clear(self) -> None:
        """Remove them: they are part of what is committed."""
        rmtree(self._folder, ignore_errors=True)


def _name(identity: str, data: bytes) -> str:
    return f"{identity}.{sha256_bytes(data)[:20]}.parquet"

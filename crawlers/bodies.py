"""Stores the bodies of a crawl: one file each, or small ones together in packs."""

from __future__ import annotations

from pathlib import Path

from rag_assay.warehouse.identity import sha256_bytes
from rag_assay.warehouse.packs import SMALL, SUFFIX, Packs, PackWriter
from rag_assay.warehouse.pages import is_whole, write_body
from rag_assay.warehouse.paths import Home


class Bodies:
    """Stores each body once.

    scratch: folder in which files are written first; only this crawl writes there
    pack: name of the pack for small bodies; None gives each a file of its own, which is there at once
    """

    def __init__(self, home: Home, scratch: Path, pack: str | None) -> None:
        self._home = home
        self._scratch = scratch
        self._known = Packs(home.packs)
        self._pack = PackWriter(home.packs / f"{pack}{SUFFIX}") if pack else None

    @property
    def waiting(self) -> bool:
        """Whether some body is not on its way to the disk yet."""
        return self._pack is not None and self._pack.waiting

    def store(self, body: bytes) -> str:
        """Store a body and return its SHA-256; one that is there already is kept, or mended."""
        if self._pack is None or len(body) > SMALL:
            return write_body(self._home, body, self._scratch)
        sha256 = sha256_bytes(body)
        if sha256 not in self._pack and not self._is_there(sha256):
            self._pack.add(sha256, body)
        return sha256

    def _is_there(self, sha256: str) -> bool:
        if self._known.find(sha256, look_again=False) is not None:
            return True
        return self._home.body(sha256).exists() and is_whole(self._home, sha256)

    def sync(self) -> None:
        """Have the disk keep what waits in a pack."""
        if self._pack is not None:
            self._pack.sync()

    def close(self) -> None:
        """Close the pack."""
        if self._pack is not None:
            self._pack.close()

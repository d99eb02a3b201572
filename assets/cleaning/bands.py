"""Band keys of MinHash signatures on disk, and the groups of documents that share one.

Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.4. A document that shares no key with another is
in no group: whatever is done with groups costs memory for possible copies only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HELD = 8_192  # documents whose keys are written at once
ALONE = -1


class Bands:
    """The keys of documents, a file a band: eight bytes a document in each.

    Args:
        folder: where the files are written.
        bands, rows: how many bands a signature has, and how many of its numbers a band takes.
    """

    def __init__(self, folder: Path, bands: int, rows: int) -> None:
        self._folder, self._shape = folder, (bands, rows)
        self._keys: list[Keys] = []

    def add(self, signature: Keys) -> None:
        """Add the signature of the next document; its first ``bands * rows`` numbers are looked at."""
        bands, rows = self._shape
        parts = signature[: bands * rows].reshape(bands, rows)
        keys = np.zeros(bands, np.uint64)
        for row in range(rows):
            keys = keys * _FACTOR + parts[:, row]
        self._keys.append(keys)
        if len(self._keys) == _HELD:
            self._write()

    def _write(self) -> None:
        if self._keys:
            for band, keys in enumerate(np.stack(self._keys, axis=1)):
                with (self._folder / f"{band}.keys").open("ab") as file:
                    file.write(keys.tobytes())
        self._keys = []

    def groups(self) -> tuple[Numbers, Numbers]:
        """Return the documents that share a key with another, and their groups.

        Returns:
            Numbers of documents in the order of `add`, rising, shape (n,), and of their groups in each band,
            ALONE where they share that key with none, shape (n, bands). One band is held at a time.
        """
        self._write()
        found: list[tuple[Numbers, Numbers]] = []
        first = 0
        for band in range(self._shape[0]):
            path = self._folder / f"{band}.keys"
            keys = np.fromfile(path, np.uint64) if path.exists() else np.zeros(0, np.uint64)
            _, places, sizes = np.unique(keys, return_inverse=True, return_counts=True)
            shared = np.flatnonzero(sizes[places] > 1)
            found.append((shared, places[shared] + first))
            first += len(sizes)
        members = np.unique(np.concatenate([shared for shared, _ in found]))
        groups = np.full((len(members), len(found)), ALONE, np.int64)
        for band, (shared, numbers) in enumerate(found):
            groups[np.searchsorted(members, shared), band] = numbers
        return members, groups

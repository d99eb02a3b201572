"""A content-addressed cache of vectors: a text is embedded once per embedder revision, whoever asks.

One folder an embedder revision, holding Parquet segments that are written whole and never changed, so that
any number of processes may add and read at once, and a kill loses at most the segment being written.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import polars as pl

from warehouse.errors import CorruptFileError
from warehouse.parquet import read_parquet, write_parquet
from warehouse.paths import Home

Matrix = npt.NDArray[np.float32]
log = logging.getLogger(__name__)


class VectorCache:
    """Vectors of one embedder revision, by the SHA-256 of the embedded text.

    Args:
        home: the home folder.
        revision: digest of the weights and of everything else that changes a vector.
    """

    def __init__(self, home: Home, revision: str) -> None:
        self.folder = home.cache("vectors") / revision

    def get(self, hashes: Sequence[str]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the vectors (float32, one dimension) that are there, by hash."""
        found: dict[str, npt.NDArray[np.float32]] = {}
        wanted = pl.Series("sha256", hashes, dtype=pl.String).unique()
        for path in sorted(self.folder.glob("*.parquet")):
            if len(found) == len(wanted):
                break
            try:
                rows = read_parquet(path).filter(pl.col("sha256").is_in(wanted.implode()))
                matrix = rows["vector"].to_numpy().astype(np.float32, copy=False)
            except (CorruptFileError, pl.exceptions.PolarsError, ValueError) as error:
                # A torn or damaged segment only costs computing its vectors again.
                log.warning("%s is damaged and is put aside (%s)", path, error)
                with suppress(FileNotFoundError):  # another process has put it aside
                    path.rename(path.with_suffix(".damaged"))
                continue
            found.update(zip(rows["sha256"].to_list(), matrix, strict=True))
        return found

    def put(self, hashes: Sequence[str], vectors: Matrix) -> None:
        """Add vectors, float32, shape (len(hashes), dimensions), as one segment."""
        if vectors.ndim != 2 or len(vectors) != len(hashes):
            raise ValueError(f"expected {len(hashes)} vectors, got an array of shape {vectors.shape}")
        if not len(hashes):
            return
        rows = pl.DataFrame(
            {"sha256": pl.Series(hashes, dtype=pl.String), "vector": vectors},
            schema={"sha256": pl.String, "vector": pl.Array(pl.Float32, vectors.shape[1])},
        )
        write_parquet(rows, self.folder / f"{uuid.uuid4().hex}.parquet")

"""Writes a segment of the vector cache as versions before hash shards did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.parquet


def write_older(
    path: Path, hashes: list[str], vectors: npt.NDArray[np.float32], tokens: npt.NDArray[np.int32] | None
) -> None:
    """Write hashes, vectors and, but in the oldest ones, tokens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"sha256": hashes, "vector": vectors} | ({} if tokens is None else {"tokens": tokens})
    rows = pl.DataFrame(columns, schema_overrides={"vector": pl.Array(pl.Float32, vectors.shape[1])})
    pyarrow.parquet.write_table(
        rows.to_arrow(compat_level=pl.CompatLevel.oldest()),
        path,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"vector.list.element": "BYTE_STREAM_SPLIT"},
        write_statistics=False,
        write_page_checksum=True,
        row_group_size=1024,
    )

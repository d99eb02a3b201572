"""Segments of the vector cache: Parquet files of hashes, vectors and tokens, written whole, never changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from warehouse.parquet import write_batches

Matrix = npt.NDArray[np.float32]
log = logging.getLogger(__name__)

GROUP = 1024  # vectors a row group: what is read for the sake of one
UNKNOWN = -1  # tokens of a text that nobody has counted


class GoneError(Exception):
    """A segment is not there any longer: joined into another one, or damaged and put aside."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a segment; one that is damaged is put aside, which only costs computing its vectors again.

    Raises:
        GoneError: it is not there (any longer), or was damaged.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except FileNotFoundError as error:
        raise GoneError(path.name) from error
    except (pyarrow.ArrowException, OSError, KeyError, ValueError, pl.exceptions.PolarsError) as error:
        log.warning("%s is damaged and is put aside (%s)", path, error)
        with suppress(FileNotFoundError):  # another process has put it aside
            path.rename(path.with_suffix(".damaged"))
        raise GoneError(path.name) from error


def write(path: Path, rows: pl.DataFrame) -> None:
    """Write the rows of `segment` in groups of GROUP."""
    write_batches(rows.iter_slices(GROUP), dict(rows.schema), path)


def segment(hashes: pl.Series, vectors: Matrix, tokens: npt.NDArray[Any]) -> pl.DataFrame:
    """Return the rows of a segment: `sha256`, `vector`, `tokens`."""
    return pl.DataFrame(
        {"sha256": hashes, "vector": vectors, "tokens": tokens.astype(np.int32)},
        schema={"sha256": pl.String, "vector": pl.Array(pl.Float32, vectors.shape[1]), "tokens": pl.Int32},
    )


def read_hashes(path: Path) -> pl.DataFrame:
    """Read `sha256` and `tokens` of a segment, and no vector."""
    with opened(path) as file:
        table = file.read(columns=["sha256", *_tokens_column(file)])
        return pl.DataFrame(
            {"sha256": table["sha256"].to_pylist(), "tokens": _tokens(table)},
            schema={"sha256": pl.String, "tokens": pl.Int32},
        )


def read_rows(
    path: Path, rows: npt.NDArray[np.uint32], keys: Sequence[str]
) -> tuple[Matrix, npt.NDArray[np.bool_]]:
    """Read the vectors of some rows of a segment, and say which of them are of ``keys``."""
    with opened(path) as file:
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        groups = np.searchsorted(begins, rows, side="right") - 1
        right = np.zeros(len(rows), np.bool_)
        result: Matrix | None = None
        for group in np.unique(groups).tolist():
            table = file.read_row_group(group, columns=["sha256", "vector"])
            inside = np.flatnonzero(groups == group)
            local = rows[inside] - begins[group]
            vectors = _matrix(table["vector"])
            hashes = table["sha256"].take(local).to_pylist()
            if result is None:
                result = np.zeros((len(rows), vectors.shape[1]), np.float32)
            result[inside] = vectors[local]
            right[inside] = [found == keys[at] for found, at in zip(hashes, inside.tolist(), strict=True)]
        assert result is not None  # noqa: S101 -- a segment is only read for some of its rows
        return result, right


def read_distinct(paths: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """Yield the rows of several segments, one segment at a time and each text once."""
    seen = pl.Series(dtype=pl.String)
    for path in paths:
        with opened(path) as file:
            table = file.read(columns=["sha256", "vector", *_tokens_column(file)])
            hashes = pl.Series(table["sha256"].to_pylist(), dtype=pl.String)
            rows = segment(hashes, _matrix(table["vector"]), _tokens(table))
        fresh = rows.filter(~pl.col("sha256").is_in(seen.implode()))
        seen = pl.concat([seen, fresh["sha256"]])
        yield fresh


def regrouped(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield frames of GROUP rows, the last one aside, from frames of any length."""
    held: pl.DataFrame | None = None
    for part in frames:
        held = part if held is None else pl.concat([held, part])
        while len(held) >= GROUP:
            yield held.head(GROUP)
            held = held.slice(GROUP)
    if held is not None and len(held):
        yield held


def _tokens_column(file: Any) -> list[str]:
    return ["tokens"] if "tokens" in file.schema_arrow.names else []


def _tokens(table: Any) -> npt.NDArray[np.int32]:
    """Return the token counts, UNKNOWN in a segment that was written before they were kept."""
    if "tokens" not in table.column_names:
        return np.full(len(table), UNKNOWN, np.int32)
    return np.asarray(table["tokens"].to_numpy(), np.int32)


def _matrix(column: Any) -> Matrix:
    """Return a column of vectors as an array, shape (rows, dimensions)."""
    array = column.combine_chunks()
    flat = array.flatten().to_numpy(zero_copy_only=False)
    dimensions = getattr(array.type, "list_size", None) or (len(flat) // max(len(array), 1))
    return np.ascontiguousarray(flat.reshape(len(array), dimensions), np.float32)

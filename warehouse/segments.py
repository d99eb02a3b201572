"""Segments of the vector cache: immutable Parquet files of hashes, vectors and token counts.

Each page has a checksum, so that a bit that flips on the disk is found and is no vector.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from warehouse.parquet import replacing

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
        OSError: the system does not let it be read (rights, too many open files): it may be whole.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            _refuse_other_columns(file.schema_arrow)
            yield file
    except FileNotFoundError as error:
        raise GoneError(path.name) from error
    except (pyarrow.ArrowException, OSError, KeyError, ValueError, pl.exceptions.PolarsError) as error:
        # What is wrong with the content has no number; a bad block of the disk is damage too.
        if getattr(error, "errno", None) not in {None, errno.EIO}:
            raise
        log.warning("%s is damaged and is put aside (%s)", path, error)
        with suppress(FileNotFoundError):  # another process has put it aside
            path.rename(path.with_suffix(".damaged"))
        raise GoneError(path.name) from error


def width_of(schema: Any) -> int | None:
    """Return how many numbers a vector has, by the Arrow schema of a segment that says it."""
    return getattr(schema.field("vector").type, "list_size", None)


def _refuse_other_columns(schema: Any) -> None:
    from pyarrow import types

    wanted = {"sha256": _is_text, "vector": _is_vector, "tokens": types.is_int32}
    mistyped = [
        name
        for name in schema.names  # the footer has no checksum: a bit may have flipped in a name
        if name not in wanted or not wanted[name](schema.field(name).type)
    ]
    if mistyped:
        raise ValueError(f"columns of another name or type: {', '.join(mistyped)}")


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_vector(kind: Any) -> bool:
    from pyarrow import types

    lists = types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)
    return bool(lists and types.is_float32(kind.value_type))


def write(path: Path, parts: Iterator[pl.DataFrame]) -> None:
    """Write the rows of `segment`, at least one, in groups of GROUP: all of them or no file."""
    import pyarrow.parquet

    groups = (rows.to_arrow(compat_level=pl.CompatLevel.oldest()) for rows in regrouped(parts))
    first = next(groups)
    options = {
        "compression": "zstd",
        "use_dictionary": False,  # no number comes twice: a dictionary made segments half as large again
        "column_encoding": {"vector.list.element": "BYTE_STREAM_SPLIT"},
        "write_statistics": False,
        "write_page_checksum": True,
    }
    with (
        replacing(path) as temporary,
        pyarrow.parquet.ParquetWriter(temporary, first.schema, **options) as writer,
    ):
        for table in chain([first], groups):
            writer.write_table(table, row_group_size=GROUP)


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

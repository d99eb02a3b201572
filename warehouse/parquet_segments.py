"""Segments of the vector cache of older versions: Parquet files, in no order. They are only read."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rag_assay.warehouse.segments import (
    UNKNOWN,
    Counts,
    Matrix,
    SegmentGoneError,
    VectorRows,
    digests_of,
    put_aside,
)


def read_parquet_segment(path: Path, at_once: int) -> Iterator[VectorRows]:
    """Yield the rows of a segment, ``at_once`` at most; one that is damaged is put aside.

    Raises:
        GoneError: it is not there (any longer), or was damaged.
        OSError: the system does not let it be read (rights, too many open files): it may be whole.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            _refuse_other_columns(file.schema_arrow)
            for batch in file.iter_batches(at_once):
                table = pyarrow.Table.from_batches([batch])
                digests = digests_of(table["sha256"].to_pylist())
                yield VectorRows(digests, _matrix(table["vector"]), _tokens(table))
    except FileNotFoundError as error:
        raise SegmentGoneError(path.name) from error
    except (pyarrow.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        # What is wrong with the content has no number; a bad block of the disk is damage too.
        if getattr(error, "errno", None) not in {None, errno.EIO}:
            raise
        put_aside(path, error)
        raise SegmentGoneError(path.name) from error


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


def _tokens(table: Any) -> Counts:
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

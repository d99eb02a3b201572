"""Writes Parquet files atomically; a file that cannot be read is a named error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from warehouse.encodable import encodable
from warehouse.errors import CorruptFileError
from warehouse.replacing import replacing


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write ``frame`` to ``path`` at once: another reader sees the old file or the whole new one."""
    with replacing(path) as temporary:
        frame.write_parquet(temporary, compression="zstd")


def write_batches(
    frames: Iterable[pl.DataFrame], schema: dict[str, pl.DataType | type[pl.DataType]], path: Path
) -> None:
    """Write frames of one schema to ``path`` in their order, each a row group; only one is held at a time.

    The file appears, whole, when the last one is written.
    """
    import pyarrow.parquet

    def table(rows: pl.DataFrame) -> Any:
        return rows.to_arrow(compat_level=pl.CompatLevel.oldest())

    with replacing(path) as temporary:
        empty = table(pl.DataFrame(schema=schema))
        with pyarrow.parquet.ParquetWriter(temporary, empty.schema, compression="zstd") as writer:
            for rows in frames:
                if len(rows):
                    writer.write_table(table(rows.select(list(schema))), row_group_size=len(rows))


def read_parquet(path: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """Read a Parquet file; raise `CorruptFileError` that names it when it is torn or no Parquet at all."""
    try:
        return pl.read_parquet(path, columns=columns)
    except FileNotFoundError as error:
        raise CorruptFileError(f"{path}: the file is missing. `assay run STUDY` makes it again.") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise CorruptFileError(
            f"{path}: not a readable Parquet file ({error}). Delete it; `assay run STUDY` makes it again."
        ) from error


def conformed(rows: pl.DataFrame, schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """Return rows whose nested columns have the fields of a schema, NULL where they had not."""
    nested = [name for name, kind in rows.schema.items() if name in schema and kind.is_nested()]
    return rows.with_columns(pl.col(name).cast(schema[name]) for name in nested)


def frame(rows: list[dict[str, object]], schema: dict[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """Make a frame of ``rows`` with exactly the columns and types of ``schema``, in its order.

    A lone surrogate, which no file can hold, becomes a question mark: one odd letter in the reason of one row
    must not lose the others.
    """
    try:
        return pl.DataFrame(rows, schema=schema, orient="row")
    except UnicodeEncodeError:
        return pl.DataFrame([_storable(row) for row in rows], schema=schema, orient="row")


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {name: _storable(one) for name, one in value.items()}
    return [_storable(one) for one in value] if isinstance(value, list | tuple) else value

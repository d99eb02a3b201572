"""Writes Parquet files atomically; a file that cannot be read is a named error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import CorruptFileError

if TYPE_CHECKING:
    from polars._typing import PolarsDataType


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    with atomic_write(path) as temporary:
        frame.write_parquet(temporary, compression="zstd")


def write_batches(
    frames: Iterable[pl.DataFrame], schema: dict[str, pl.DataType | type[pl.DataType]], path: Path
) -> None:
    """Each frame is a row group, one is held at a time; the file appears when it is whole."""
    import pyarrow.parquet

    def table(rows: pl.DataFrame) -> Any:
        return rows.to_arrow(compat_level=pl.CompatLevel.oldest())

    with atomic_write(path) as temporary:
        empty = table(pl.DataFrame(schema=schema))
        with pyarrow.parquet.ParquetWriter(temporary, empty.schema, compression="zstd") as writer:
            for rows in frames:
                if len(rows):
                    writer.write_table(table(rows.select(list(schema))), row_group_size=len(rows))


def read_parquet(path: Path, columns: list[str] | None = None, where: pl.Expr | None = None) -> pl.DataFrame:
    """Raises CorruptFileError: the file is missing, torn, or no Parquet."""
    try:
        if where is None:
            return pl.read_parquet(path, columns=columns)
        found = pl.scan_parquet(path).filter(where)
        return (found.select(columns) if columns else found).collect()
    except FileNotFoundError as error:
        raise CorruptFileError(f"{path}: the file is missing. `assay run STUDY` rebuilds it.") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise CorruptFileError(
            f"{path}: not a readable Parquet file ({error}). Delete it; `assay run STUDY` rebuilds it."
        ) from error


def conform_rows(rows: pl.DataFrame, schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """Return rows whose nested columns have the fields of a schema, NULL where they had not."""
    nested = [name for name, kind in rows.schema.items() if name in schema and kind.is_nested()]
    return rows.with_columns(pl.col(name).cast(schema[name]) for name in nested)


def frame(rows: list[dict[str, object]], schema: dict[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """Make a frame with exactly the columns and types of ``schema``; lone surrogates become `?`."""
    try:
        return pl.DataFrame(rows, schema=schema, orient="row")
    except (TypeError, UnicodeEncodeError):
        storable = [{name: _storable(row.get(name), kind) for name, kind in schema.items()} for row in rows]
        return pl.DataFrame(storable, schema=schema, orient="row")


def _storable(value: Any, kind: PolarsDataType) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, int) and kind.is_float():
        return float(value)
    if isinstance(kind, pl.List) and isinstance(value, list | tuple | np.ndarray):
        return [_storable(one, kind.inner) for one in value]
    if isinstance(kind, pl.Struct) and isinstance(value, dict):
        return {field.name: _storable(value.get(field.name), field.dtype) for field in kind.fields}
    return value

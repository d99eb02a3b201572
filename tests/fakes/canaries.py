"""Looks for secrets in all that was written: as bytes, unpacked, in every text of tables and databases."""

from __future__ import annotations

import gzip
import sqlite3
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from io import BytesIO
from pathlib import Path
from urllib.parse import quote, quote_plus

import duckdb
import polars as pl
import zstandard

Named = tuple[str, bytes]


def forms(secret: str) -> set[bytes]:
    """Return a secret as it may stand in a file: plain, quoted for a URL, in base64."""
    plain = secret.encode()
    quoted = {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    return {plain, *(one.encode() for one in quoted), b64encode(plain), b64encode(plain).rstrip(b"=")}


def leaks(secrets: Mapping[str, str], written: Iterable[Named]) -> list[str]:
    """Return which secrets stand where, sorted."""
    wanted = {name: forms(secret) for name, secret in secrets.items()}
    found = {
        f"{name} in {place}"
        for place, content in written
        for name, some in wanted.items()
        if any(form in content for form in some)
    }
    return sorted(found)


def contents(root: Path) -> Iterator[Named]:
    """Yield every name and every file below a folder, each as its bytes and as what can be read in it."""
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        yield f"the name {name}", name.encode()
        if path.suffix == ".lance" and path.is_dir():
            yield name, _lance(path)
        elif path.is_file():
            raw = path.read_bytes()
            yield name, raw
            yield f"{name} (read)", b"\n".join(_read(path, raw))


def _read(path: Path, raw: bytes) -> Iterator[bytes]:
    if raw.startswith(b"\x1f\x8b"):
        yield gzip.decompress(raw)
    elif raw.startswith(b"\x28\xb5\x2f\xfd"):
        yield zstandard.ZstdDecompressor().stream_reader(BytesIO(raw), read_across_frames=True).read()
    elif raw.startswith(b"PAR1"):
        yield _texts(pl.read_parquet(BytesIO(raw)))
    elif raw.startswith(b"SQLite format 3"):
        yield from _sqlite(path)
    elif path.suffix == ".duckdb":
        yield from _duckdb(path)


def _texts(table: pl.DataFrame) -> bytes:
    """Return all values of a table, nested ones too."""
    return "\n".join(str(value) for row in table.iter_rows() for value in row).encode()


def _sqlite(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 -- its own names
                yield repr(row).encode()


def _duckdb(path: Path) -> Iterator[bytes]:
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        tables = connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        for (table,) in tables:
            yield _texts(connection.sql(f'SELECT * FROM "{table}"').pl())  # noqa: S608 -- its own names


def _lance(path: Path) -> bytes:
    import lancedb

    table = lancedb.connect(str(path.parent)).open_table(path.stem)
    return "\n".join(str(row) for row in table.to_arrow().to_pylist()).encode()

"""Short DuckDB connections behind one lock-and-retry helper.

A process that writes the file locks out all others, readers too. So a connection is opened late, closed soon,
and a locked file is waited for; who holds it is said by name.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.warehouse.errors import AssayError, CorruptFileError, InputError, LockedError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

WAIT_SECONDS = 60.0
_HOLDER = re.compile(r"lock is held in (?P<program>.*?) \(PID (?P<pid>\d+)\)")


@contextmanager
def connect(
    path: Path, *, wait: float | None = None, notify: Callable[[str], None] | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the database for reading and writing, migrated; close it when the block ends.

    Args:
        path: the DuckDB file; made when absent.
        wait: seconds to wait for another process that holds the file; unless given, `ASSAY_LOCK_WAIT` or 60.

    Raises:
        LockedError: the file stayed locked; names the process that holds it.
        DamagedDatabaseError: the file is no DuckDB database, or damaged; says how to have it made again.
    """
    import duckdb

    connection = _open(path, _patience() if wait is None else wait, notify)
    try:
        connection.execute("SET TimeZone = 'UTC'")
        migrate(connection)
        yield connection
    except duckdb.Error as error:
        if _is_damage(error):
            raise _damaged(path, error) from error
        if isinstance(error, duckdb.IOException):
            raise AssayError(f"{path}: {_first_line(error)}") from error
        raise
    finally:
        connection.close()


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def insert_rows(
    connection: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame, *, new_only: bool = False
) -> int:
    """Insert rows by the names of their columns; return how many came."""
    connection.register("incoming", rows.to_arrow())
    verb = "INSERT OR IGNORE" if new_only else "INSERT"
    connection.execute(f"{verb} INTO {table} BY NAME SELECT * FROM incoming")  # noqa: S608
    connection.unregister("incoming")
    return len(rows)


class DamagedDatabaseError(CorruptFileError):
    """The DuckDB file cannot be read: no DuckDB file at all, torn, or with blocks of other bytes.

    inode: of the file that was damaged; another one may stand in its place by now
    """

    inode: int | None = None


# Every block has a checksum, so that a flipped bit is always said.
_DAMAGE = re.compile(
    r"Corrupt database file|Could not read enough bytes|not a valid DuckDB|[Ff]ailed to deserialize"
)


def _is_damage(error: duckdb.Error) -> bool:
    import duckdb

    kinds = (duckdb.FatalException, duckdb.InternalException, duckdb.SerializationException)
    return isinstance(error, kinds) or _DAMAGE.search(str(error)) is not None


def _damaged(path: Path, error: Exception) -> DamagedDatabaseError:
    damaged = DamagedDatabaseError(
        f"{path}: DuckDB cannot read it ({_first_line(error)}). "
        "`assay workspace rebuild` sets it aside and makes it again from the Parquet files."
    )
    with suppress(FileNotFoundError):
        damaged.inode = path.stat().st_ino
    return damaged


def _patience() -> float:
    text = os.environ.get("ASSAY_LOCK_WAIT") or str(WAIT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"ASSAY_LOCK_WAIT is a number of seconds, as in 60, not {text!r}")
    return seconds


def _open(path: Path, wait: float, notify: Callable[[str], None] | None) -> duckdb.DuckDBPyConnection:
    import duckdb

    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait
    notified = False
    while True:
        try:
            return duckdb.connect(str(path))
        except duckdb.Error as error:
            # A thread of this process closes the file at this moment: DuckDB then refuses to open it.
            is_ours = isinstance(error, duckdb.ResourceInUseException)
            holder = f"this process ({os.getpid()})" if is_ours else _holder(str(error))
            if "Cannot open file" in str(error):  # the system refuses it; nothing is wrong with its content
                raise AssayError(f"{path}: {_first_line(error)}") from error
            if holder is None:
                raise _damaged(path, error) from error
            if time.monotonic() >= deadline:
                raise LockedError(
                    f"{path} is held by {holder}; waited {wait:.0f} s. End that process, or try again later."
                ) from error
            if notify and not notified and not is_ours:
                notify(f"waiting for {path.name}, held by {holder} …")
                notified = True
            time.sleep(0.05)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _holder(message: str) -> str | None:
    if "set lock on file" not in message:  # a path may hold the word, too
        return None
    match = _HOLDER.search(message)
    if match is None:
        return "another process"
    pid = match["pid"]
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        program = " ".join(word.decode(errors="replace") for word in words if word)[:120]
    except OSError:
        program = match["program"]
    return f"process {pid} ({program})"


def migrate(connection: duckdb.DuckDBPyConnection) -> list[str]:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (name VARCHAR PRIMARY KEY, applied_at TIMESTAMPTZ)"
    )
    done = {name for (name,) in connection.execute("SELECT name FROM migrations").fetchall()}
    scripts = sorted(
        (entry for entry in files("rag_assay.warehouse.migrations").iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    unknown = done - {script.name for script in scripts}
    if unknown:
        raise AssayError(
            f"the database was written by a newer rag-assay (it has the migration {max(unknown)}); "
            "update rag-assay"
        )
    applied = []
    for script in scripts:
        if script.name in done:
            continue
        with transaction(connection):
            connection.execute(script.read_text())
            connection.execute("INSERT INTO migrations VALUES (?, now())", [script.name])
        applied.append(script.name)
    return applied

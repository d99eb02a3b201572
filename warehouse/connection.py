"""Short uses of DuckDB files: a process that has a file open locks out all others, readers too."""

from __future__ import annotations

import itertools
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.warehouse.errors import AssayError, CorruptFileError, InputError, LockedError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import duckdb
    import polars as pl

WAIT_SECONDS = 60.0
_HOLDER = re.compile(r"lock is held in (?P<program>.*?) \(PID (?P<pid>\d+)\)")


@contextmanager
def connect(
    path: Path, *, wait: float | None = None, notify: Callable[[str], None] | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the database for reading and writing, migrated; close it when the block ends.

    wait: seconds for another process that holds the file; default: `ASSAY_LOCK_WAIT` or 60
    Raises LockedError (names the process that holds it) and DamagedDatabaseError (says how to rebuild it).
    """
    import duckdb

    with _interrupted(), _attached(path, _patience() if wait is None else wait, notify) as connection:
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


@contextmanager
def _interrupted() -> Iterator[None]:
    """Raise KeyboardInterrupt where DuckDB says instead that Ctrl-C came while it worked."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise


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
    """The DuckDB file cannot be read. ``inode``: of that file; another one may stand in its place by now."""

    inode: int | None = None


# Every block has a checksum, so that a flipped bit is always said.
_DAMAGE = re.compile(
    r"Corrupt database file|Could not read enough bytes|not a valid DuckDB|[Ff]ailed to deserialize"
)


def _is_damage(error: BaseException) -> bool:
    import duckdb

    kinds = (duckdb.FatalException, duckdb.InternalException, duckdb.SerializationException)
    return isinstance(error, kinds) or _DAMAGE.search(str(error)) is not None


def _damaged(path: Path, error: Exception) -> DamagedDatabaseError:
    damaged = DamagedDatabaseError(
        f"{path}: DuckDB cannot read it ({_first_line(error)}). "
        "`assay workspace rebuild` sets it aside and rebuilds it from the Parquet files."
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


class _Instance:
    """DuckDB of this process, in memory, to which files are attached, four times as fast as one each."""

    def __init__(self, path: Path) -> None:
        import duckdb

        self._root = duckdb.connect(config={"temp_directory": f"{path}.tmp"})
        self._lock = threading.Lock()
        self._uses: dict[str, tuple[str, int]] = {}  # file -> the name it is attached by, number of uses

    def attach(self, path: Path) -> str:
        file = os.path.realpath(path)
        with self._lock:
            name, count = self._uses.get(file, ("", 0))
            if not count:
                taken = {name for name, _ in self._uses.values()}
                name = next(one for n in itertools.count() if (one := f"assay_{n}") not in taken)
                quoted = file.replace("'", "''")
                self._root.execute(f"ATTACH '{quoted}' AS {name}")
            self._uses[file] = name, count + 1
        return file

    def cursor(self, file: str) -> duckdb.DuckDBPyConnection:
        return self._root.cursor().execute(f"USE {self._uses[file][0]}")

    def detach(self, file: str) -> None:
        with self._lock:
            name, count = self._uses.pop(file)
            if count > 1:
                self._uses[file] = name, count - 1
            else:
                self._root.execute(f"DETACH {name}")


_instances: list[_Instance] = []  # one at most
_starting = threading.Lock()
os.register_at_fork(before=_instances.clear)  # its threads would be missing in the other process


@contextmanager
def _attached(
    path: Path, wait: float, notify: Callable[[str], None] | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    instance, file = _attach(path, wait, notify)
    try:
        with instance.cursor(file) as connection:
            yield connection
    except BaseException as error:
        if _is_damage(error.__cause__ or error):
            _forget(instance)
        raise
    finally:
        try:
            instance.detach(file)
        except duckdb.Error:
            _forget(instance)


def _forget(instance: _Instance) -> None:
    """After a fatal error, DuckDB refuses whatever it is asked."""
    with _starting, suppress(ValueError):
        _instances.remove(instance)


def _attach(path: Path, wait: float, notify: Callable[[str], None] | None) -> tuple[_Instance, str]:
    import duckdb

    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait
    notified = False
    while True:
        with _starting:
            instance = _instances[0] if _instances else _Instance(path)
            _instances[:] = [instance]
        try:
            return instance, instance.attach(path)
        except duckdb.Error as error:
            # A forgotten instance still closes the file: DuckDB then refuses to open it.
            is_ours = isinstance(error, duckdb.ResourceInUseException)
            holder = f"this process ({os.getpid()})" if is_ours else _holder(str(error))
            if "Cannot open file" in str(error):  # the system refuses it; nothing is wrong with its content
                raise AssayError(f"{path}: {_first_line(error)}") from error
            if holder is None:
                _forget(instance)
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
    scripts = _migrations()
    if unknown := done - scripts.keys():
        raise AssayError(
            f"the database was written by a newer rag-assay (it has the migration {max(unknown)}); "
            "update rag-assay"
        )
    missing = sorted(scripts.keys() - done)
    if missing:
        with transaction(connection):  # one for all: each commit waits for the disk
            for name in missing:
                connection.execute(scripts[name].read_text())
                connection.execute("INSERT INTO migrations VALUES (?, now())", [name])
    return missing


@cache
def _migrations() -> dict[str, Traversable]:
    scripts = files("rag_assay.warehouse.migrations").iterdir()
    return {one.name: one for one in scripts if one.name.endswith(".sql")}

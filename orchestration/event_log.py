"""Dagster's instance for the driver's process: cheaper writes to its log, and plain words when they fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster as dg
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from sqlalchemy import event, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.redaction import one_line

_NO_COMPUTE_LOGS = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}


def open_instance(folder: Path) -> dg.DagsterInstance:
    """Return the instance under ``folder`` (to be closed) for runs in this process.

    What is printed while they run stays on the terminal. Dagster would send it to files, and start two
    processes for each of these that print it: after Ctrl-C they show their stacks, and a killed run leaves
    them behind for a while.
    """
    read_migrations_once()
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=_NO_COMPUTE_LOGS))


def read_migrations_once() -> None:
    """Let this process read the migrations of Dagster's databases once, and not for each file that it opens.

    There are a hundred scripts, half the time that it takes to open an instance.
    """
    if not isinstance(vars(ScriptDirectory)["from_config"], classmethod):
        return  # it does already
    read, known = ScriptDirectory.from_config, dict[tuple[str | None, str], ScriptDirectory]()

    def from_config(config: Config) -> ScriptDirectory:
        place = (config.config_file_name, str(config.get_main_option("script_location")))
        if place not in known:
            known[place] = read(config)
        return known[place]

    ScriptDirectory.from_config = staticmethod(from_config)  # type: ignore[method-assign]


@contextmanager
def shared_engines() -> Iterator[dict[object, Any]]:
    """Let Dagster's SQLite event log write cheaply while the block lasts; yield its engines, one a file.

    Dagster makes an engine for every event, so that each statement is compiled again, and a connection for
    every statement, so that the file is opened, synced and closed for each (`make bench-grid` shows what a
    partition costs now). Here connections are kept until the block ends, and a commit does not wait for the
    disk: after a power cut the log may lack its last events, which the next run writes again, and is whole
    otherwise. The rows are those that Dagster writes, with fewer questions to the database about each.
    With a Dagster that does it otherwise, the block does nothing.
    """
    storage: Any = import_module("dagster._core.storage.event_log.sqlite.sqlite_event_log")
    rows: Any = import_module("dagster._core.storage.event_log.sql_event_log")
    of_log = rows.SqlEventLogStorage
    engines: dict[object, Any] = {}
    with ExitStack() as stack:
        for owner, name, cheaper in (
            (storage, "create_engine", partial(_shared, engines)),
            (rows, "serialize_value", _once_an_event),
            (of_log, "_has_asset_key_col_on_connection", _once_a_column),
            (of_log, "_update_asset_check_evaluation", _inserted_at_once),
        ):
            stack.enter_context(_replaced(owner, name, cheaper))
        try:
            yield engines
        finally:
            for engine in engines.values():
                del engine.dispose
                engine.dispose()


@contextmanager
def _replaced(owner: Any, name: str, cheaper: Callable[[Any], Any]) -> Iterator[None]:
    before = vars(owner).get(name)
    if before is None:
        yield
        return
    setattr(owner, name, cheaper(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def _shared(engines: dict[object, Any], make: Callable[..., Any]) -> Callable[..., Any]:

    def shared(url: str, **options: Any) -> Any:
        options["poolclass"] = QueuePool
        key = (url, repr(sorted(options.items(), key=lambda option: option[0])))
        if key not in engines:
            engines[key] = make(url, **options)
            engines[key].dispose = lambda: None  # which Dagster calls after each statement
            event.listen(engines[key], "connect", _without_waiting)
        return engines[key]

    return shared


def _once_an_event(serialize: Callable[..., str]) -> Callable[..., str]:
    """Make the text of an event once for the rows that hold it: up to four, one after the other."""
    last: tuple[object, str] = (None, "")

    def text_of(value: Any, **options: Any) -> str:
        nonlocal last
        known, text = last
        if options or known is not value:
            text = serialize(value, **options)
            last = last if options else (value, text)
        return text

    return text_of


def _once_a_column(look: Callable[..., bool]) -> Callable[..., bool]:
    """Look once whether the table of assets has a column; no run adds one."""
    found: dict[tuple[object, str], bool] = {}

    def has(storage: Any, connection: Any, column: str) -> bool:
        key = (storage, column)
        if key not in found:
            found[key] = look(storage, connection, column)
        return found[key]

    return has


def _inserted_at_once(update: Callable[..., None]) -> Callable[..., None]:
    """Add what a check says of a partition, where Dagster seeks a planned row among all rows of the check.

    A run of ours plans no checks. One that does, and a partition that is checked again, go Dagster's way.
    """
    written: dict[tuple[str, str, str], set[str | None] | None] = {}

    def store(storage: Any, entry: Any, row: int | None) -> None:
        said = entry.dagster_event.event_specific_data
        key = (entry.run_id, said.asset_key.to_string(), said.check_name)
        if key not in written:
            written[key] = None if _has_rows(storage, *key) else set()
        partitions = written[key]
        if partitions is None or said.partition in partitions:
            update(storage, entry, row)
        else:
            storage._store_runless_asset_check_evaluation(entry, row)
            partitions.add(said.partition)

    return store


def _has_rows(storage: Any, run: str, asset: str, check: str) -> bool:
    table = AssetCheckExecutionsTable.c
    wanted = select(table.id).where(table.run_id == run, table.asset_key == asset, table.check_name == check)
    with storage.index_connection() as connection:
        return connection.execute(wanted.limit(1)).first() is not None


def _without_waiting(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = NORMAL").close()


def is_of_log(error: BaseException) -> bool:
    """Return whether an error says that Dagster's log of runs, a file or a server, cannot be used."""
    # Of dagster-postgres, which only instances on a server have installed.
    names = {one.__name__ for one in type(error).__mro__}
    return isinstance(error, DBAPIError) or "DagsterPostgresException" in names


@contextmanager
def plain_failures(folder: Path) -> Iterator[None]:
    """Say in a sentence that the log of the instance in ``folder`` cannot be used.

    That is a full disk or a torn file, or a server that is gone.
    """
    try:
        yield
    except Exception as error:
        if not is_of_log(error):
            raise
        if not isinstance(error, DBAPIError):
            reason = one_line(str(getattr(error.__cause__, "orig", None) or error))
            raise AssayError(
                f"Dagster's database of runs cannot be used ({reason}). Start it, and run again: "
                "results that were stored are kept"
            ) from error
        raise AssayError(
            f"{folder}: Dagster's log of runs cannot be used ({error.orig}). See that the disk has room; "
            "if that does not help, move the folder away and run again: only the UI's history is in it"
        ) from error

"""Dagster's instance for the driver's process: cheaper writes to its log, and plain words when they fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster as dg
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.instance.ref import InstanceRef
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from warehouse.errors import AssayError

_NO_COMPUTE_LOGS = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}


def opened_instance(folder: Path) -> dg.DagsterInstance:
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
    """Let Dagster's SQLite event log use one engine a file while the block lasts; yield the engines.

    Dagster makes an engine for every event, so that each statement is compiled anew, and a connection for
    every statement, so that the file is opened, synced and closed for each (`make bench-grid` shows what a
    partition costs now). Here connections are kept until the block ends, and a commit does not wait for the
    disk: after a power cut the log may lack its last events, which the next run writes again, and is whole
    otherwise.
    With a Dagster that does it otherwise, the block does nothing.
    """
    storage: Any = import_module("dagster._core.storage.event_log.sqlite.sqlite_event_log")
    make = getattr(storage, "create_engine", None)
    engines: dict[object, Any] = {}
    if make is None:
        yield engines
        return

    def shared(url: str, **options: Any) -> Any:
        options["poolclass"] = QueuePool
        key = (url, repr(sorted(options.items(), key=lambda option: option[0])))
        if key not in engines:
            engines[key] = make(url, **options)
            engines[key].dispose = lambda: None  # which Dagster calls after each statement
            event.listen(engines[key], "connect", _without_waiting)
        return engines[key]

    storage.create_engine = shared
    try:
        yield engines
    finally:
        storage.create_engine = make
        for engine in engines.values():
            del engine.dispose
            engine.dispose()


def _without_waiting(connection: sqlite3.Connection, _record: object) -> None:
    """Have commits leave the sync to the next checkpoint, which in WAL mode keeps the file whole."""
    connection.execute("PRAGMA synchronous = NORMAL").close()


@contextmanager
def plain_failures(folder: Path) -> Iterator[None]:
    """Say in a sentence that the log under ``folder`` cannot be used: a full disk, a torn file.

    Raises:
        AssayError: in place of SQLAlchemy's error, which shows its SQL.
    """
    try:
        yield
    except DBAPIError as error:
        raise AssayError(
            f"{folder}: Dagster's log of runs cannot be used ({error.orig}). See that the disk has room; "
            "if that does not help, move the folder away and run again: only the UI's history is in it"
        ) from error

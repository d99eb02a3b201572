"""Dagster's instance for the driver's process: cheaper writes to its log."""

from __future__ import annotations

import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg

# The one import of a private module (tests/orchestration/test_public_api.py): Dagster exports no SQLite
# storage. Its own makes an engine, and opens the file, for each statement. A partition with three checks then
# costs 39-43 ms of CPU instead of 8, more than building it in a grid of cheap cells (`make bench-grid`).
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage, SqliteEventLogStorage  # type: ignore[attr-defined]
from sqlalchemy import Connection, Engine, create_engine, event

_NO_COMPUTE_LOGS = {
    "compute_logs": {
        "module": "dagster.core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}
MOST_OPEN = 8  # databases that are kept open; each run has one


def open_instance(folder: Path) -> dg.DagsterInstance:
    """Return the instance under ``folder`` (to be closed) for runs in this process.

    What is printed while they run stays on the terminal. Dagster would send it to files, and start two
    processes for each of these that print it: after Ctrl-C they show their stacks, and a killed run leaves
    them behind for a while.
    """
    return dg.DagsterInstance.local_temp(str(folder), overrides=_NO_COMPUTE_LOGS)


class EventLog(SqliteEventLogStorage):
    """Dagster's SQLite event log with connections that stay open, and no file for a deleted run.

    A commit does not wait for the disk: a power cut may lose the last events, which the next run writes
    again.
    """

    _engines: OrderedDict[str, Engine]
    _tables: set[str]

    def __init__(self, base_dir: str) -> None:
        self._engines, self._tables = OrderedDict(), set()
        super().__init__(base_dir)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            if shard not in self._engines:
                engine = create_engine(self.conn_string_for_shard(shard), connect_args={"timeout": 60})
                event.listen(engine, "connect", _without_waiting)
                self._engines[shard] = engine
                if shard not in self._initialized_dbs:
                    self._initdb(engine)
                    self._initialized_dbs.add(shard)
            self._engines.move_to_end(shard)
            while len(self._engines) > MOST_OPEN:
                self._engines.popitem(last=False)[1].dispose()
            with self._engines[shard].connect() as connection, connection.begin():
                yield connection

    def store_event(self, event: dg.EventLogEntry) -> None:
        """Store an event, and touch the database of its run.

        The UI follows a run by changes of that file; what is written through open connections goes to the
        write-ahead log beside it.
        """
        super().store_event(event)
        with suppress(FileNotFoundError):  # the run was deleted meanwhile
            os.utime(self.path_for_shard(event.run_id))

    def has_table(self, table_name: str) -> bool:
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def delete_events(self, run_id: str) -> None:
        super().delete_events(run_id)
        with self._db_lock:
            if engine := self._engines.pop(run_id, None):
                engine.dispose()
            for ending in ("", "-wal", "-shm"):
                Path(f"{self.path_for_shard(run_id)}{ending}").unlink(missing_ok=True)

    def dispose(self) -> None:
        for engine in self._engines.values():
            engine.dispose()
        super().dispose()


class Storage(DagsterSqliteStorage):
    """Dagster's SQLite storage with the event log above; `dagster.yaml` names it."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = EventLog(os.path.join(base_dir, "history", "runs"))  # noqa: PTH118

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> Storage:
        return cls(inst_data=inst_data, **config_value)


def _without_waiting(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = NORMAL").close()

"""The event log: the rows that Dagster writes, by few connections, and nothing left behind."""

import inspect
import re
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_postgres.utils import retry_pg_connection_fn
from sqlalchemy import create_engine

from rag_assay.orchestration.event_log import (
    MOST_OPEN,
    DagsterSqliteStorage,
    EventLog,
    Storage,
    open_instance,
)
from rag_assay.orchestration.log_errors import plain_failures
from rag_assay.orchestration.settings import Settings, prepare
from rag_assay.warehouse.errors import AssayError

KEY = dg.AssetKey("a")
EACH = 4  # checks and materializations of a partition


def log_partitions(instance: dg.DagsterInstance, count: int) -> str:
    """Log events of partitions of an asset in a run; one partition is checked twice."""

    @dg.op
    def log(context: dg.OpExecutionContext) -> None:
        for number in [*range(count), 0]:
            key = f"p{number}"
            context.log_event(dg.AssetMaterialization(KEY, partition=key, tags={"dagster/data_version": key}))
            for name in ("good", "whole", "fresh"):
                passed = name != "good" or number > 0
                context.log_event(
                    dg.AssetCheckEvaluation(asset_key=KEY, check_name=name, passed=passed, partition=key)
                )

    @dg.job(executor_def=dg.in_process_executor)
    def work() -> None:
        log()

    return work.execute_in_process(instance=instance).run_id


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", "")
    return prepare(Settings(home=tmp_path)) / "dagster"


def test_events_go_through_a_handful_of_connections(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3.dbapi2,
        "connect",
        lambda *args, **more: [connected.append(args[0]), connect(*args, **more)][1],
    )
    with open_instance(folder) as instance:
        assert isinstance(instance.event_log_storage, EventLog)
        run = log_partitions(instance, 20)
        logged = [path for path in connected if Path(path).stem in {"index", run}]
        assert 2 <= len(logged) <= 20  # a few when a database is made, none for each of the 84 events
        assert instance.get_materialized_partitions(KEY) == {f"p{n}" for n in range(20)}


def test_the_rows_are_those_that_dagster_writes(folder: Path, tmp_path: Path) -> None:
    found, theirs = [], tmp_path / "theirs"
    theirs.mkdir()
    for opened, where in (
        (open_instance(folder), folder),
        (dg.DagsterInstance.local_temp(str(theirs)), theirs),
    ):
        with opened as instance:
            run = log_partitions(instance, 3)
        with closing(sqlite3.connect(where / "history" / "runs" / "index.db")) as connection:
            events = "SELECT dagster_event_type, asset_key, partition FROM event_logs ORDER BY id"
            checks = (
                "SELECT asset_key, check_name, partition, execution_status FROM asset_check_executions "
                "ORDER BY id"
            )
            tags = "SELECT asset_key, key, value, event_id FROM asset_event_tags ORDER BY id"
            found.append([connection.execute(one).fetchall() for one in (events, checks, tags)])
        with closing(sqlite3.connect(where / "history" / "runs" / f"{run}.db")) as connection:
            found[-1].append(connection.execute("SELECT dagster_event_type FROM event_logs").fetchall())
    ours, theirs_found = found
    assert ours == theirs_found
    assert len(ours[0]) >= 4 * EACH


def test_a_deleted_run_leaves_no_file(folder: Path) -> None:
    with open_instance(folder) as instance:
        run = log_partitions(instance, 1)
        shards = folder / "history" / "runs"
        assert (shards / f"{run}.db").exists()
        instance.delete_run(run)
        assert not list(shards.glob(f"{run}*"))
        log_partitions(instance, 1)


def test_databases_of_many_runs_do_not_stay_open(folder: Path) -> None:
    with open_instance(folder) as instance:
        runs = [log_partitions(instance, 1) for _ in range(MOST_OPEN + 2)]
        log: Any = instance.event_log_storage
        assert len(log._engines) == MOST_OPEN
        assert all(instance.get_records_for_run(run).records for run in runs)


def test_another_process_reads_and_writes_meanwhile(folder: Path) -> None:
    """The web server and the driver have the log open at once."""
    with open_instance(folder) as first, dg.DagsterInstance.get() as second:
        for instance in (first, second, first):
            log_partitions(instance, 2)
        assert len(first.get_runs()) == len(second.get_runs()) == 3
        assert second.get_materialized_partitions(KEY) == {"p0", "p1"}


def test_a_server_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    url = f"postgresql+psycopg2://assay@127.0.0.1:{port}/dagster"
    with pytest.raises(AssayError) as caught, plain_failures(tmp_path):
        retry_pg_connection_fn(create_engine(url).connect, retry_limit=1, retry_wait=0.01)
    message = str(caught.value)
    assert message.startswith("Dagster's database of runs cannot be used (connection to server at")
    assert "Connection refused" in message
    assert "\n" not in message


def test_what_is_no_fault_of_the_log_goes_through(tmp_path: Path) -> None:
    with pytest.raises(KeyError), plain_failures(tmp_path):
        raise KeyError("another")


def test_torn_log_is_a_sentence_without_its_sql(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("a"))
    for path in (tmp_path / "history" / "runs").glob("*.db"):
        path.write_bytes(b"this was a spreadsheet\n" * 1000)
    with (
        pytest.raises(AssayError) as caught,
        plain_failures(tmp_path),
        dg.DagsterInstance.local_temp(str(tmp_path)) as instance,
    ):
        instance.report_runless_asset_event(dg.AssetMaterialization("a"))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: Dagster's log of runs cannot be used (file is not a database)")
    assert "SELECT" not in message


def test_a_run_that_is_watched_is_followed_while_it_writes(folder: Path) -> None:
    """As the UI follows it: by changes of the run's file, which open connections do not write at once."""
    followed: list[str] = []
    with open_instance(folder) as writes, open_instance(folder) as watches:
        run = log_partitions(writes, 1)
        watches.event_log_storage.watch(run, None, lambda entry, _cursor: followed.append(entry.message))
        writes.report_engine_event("one more", run_id=run, job_name="work")
        until = time.monotonic() + 30
        while "one more" not in followed and time.monotonic() < until:
            time.sleep(0.02)
    assert "one more" in followed, followed[-3:]


def test_instances_of_tests_begin_with_the_databases_that_dagster_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are copied (`tests/fakes/migrations.py`): all but the time of an index is as it would be made."""

    def databases(name: str) -> dict[str, list[str]]:
        folder = tmp_path / name
        Storage(str(folder)).dispose()
        return {
            path.relative_to(folder).as_posix(): [
                re.sub(r"'\d{4}-\d\d-\d\d [\d:.]+'", "TIME", line)
                for line in sqlite3.connect(path).iterdump()
            ]
            for path in folder.rglob("*.db")
        }

    copied = databases("copied")
    assert copied.keys() == {"history/runs.db", "history/runs/index.db", "schedules/schedules.db"}
    monkeypatch.setattr(DagsterSqliteStorage, "__init__", inspect.unwrap(DagsterSqliteStorage.__init__))
    assert databases("made") == copied

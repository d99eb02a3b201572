"""The event log's shared engines: fewer of them, the same events, and nothing left behind."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from alembic.script import ScriptDirectory
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, StepMaterializationData
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log.sqlite import sqlite_event_log as storage
from dagster_postgres.utils import retry_pg_connection_fn
from sqlalchemy import create_engine

from rag_assay.orchestration.event_log import open_instance, plain_failures, shared_engines
from rag_assay.orchestration.settings import Settings, prepare
from rag_assay.warehouse.errors import AssayError


def test_events_go_through_a_handful_of_engines(tmp_path: Path) -> None:
    before = storage.create_engine
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance, shared_engines() as engines:
        for number in range(20):
            instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=f"p{number}"))
        assert 1 <= len(engines) <= 3
        assert all(engine.pool.checkedin() for engine in engines.values()), "a connection is kept"
        assert instance.get_materialized_partitions(dg.AssetKey("a")) == {f"p{n}" for n in range(20)}
    assert storage.create_engine is before


def entry(run: str, kind: dg.DagsterEventType, about: Any) -> EventLogEntry:
    return EventLogEntry(
        error_info=None,
        level=20,
        user_message="",
        run_id=run,
        timestamp=1_700_000_000.5,
        job_name="walk",
        dagster_event=DagsterEvent(kind.value, "walk", event_specific_data=about),
    )


def entries() -> Iterator[EventLogEntry]:
    """What is logged of keys: planned, built, checked, checked again; and a run that plans its checks."""
    key = dg.AssetKey("a")
    for partition in ("p", "q"):
        planned = AssetMaterializationPlannedData(key, partition=partition)
        yield entry("one", dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, planned)
        built = StepMaterializationData(dg.AssetMaterialization("a", partition=partition))
        yield entry("one", dg.DagsterEventType.ASSET_MATERIALIZATION, built)
    yield entry(
        "two",
        dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED,
        AssetCheckEvaluationPlanned(asset_key=key, check_name="c"),
    )
    for run, partition, passed in (
        *(("one", "p", False), ("one", "q", True), ("one", "p", True), ("one", None, True)),
        *(("two", None, True), ("three", "p", False)),
    ):
        said = dg.AssetCheckEvaluation(key, "c", passed=passed, metadata={"n": 3}, partition=partition)
        yield entry(run, dg.DagsterEventType.ASSET_CHECK_EVALUATION, said)


def test_the_rows_are_those_that_dagster_writes(tmp_path: Path) -> None:
    found = {}
    for name, block in (("ours", shared_engines), ("theirs", nullcontext)):
        folder = tmp_path / name
        folder.mkdir()
        with dg.DagsterInstance.local_temp(str(folder)) as instance, block():
            for one in entries():
                instance.event_log_storage.store_event(one)
        with closing(sqlite3.connect(folder / "history" / "runs" / "index.db")) as connection:
            tables = ("event_logs", "asset_keys", "asset_check_executions", "asset_event_tags")
            found[name] = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608
    ours, theirs = ([*map(_undated, one.values())] for one in found.values())
    assert ours == theirs
    assert len(found["ours"]["asset_check_executions"]) == 5


def _undated(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Without the moment at which SQLite wrote them."""
    now = datetime.now(UTC).strftime("%Y-")
    return [tuple(None if str(value).startswith(now) else value for value in row) for row in rows]


def test_migrations_are_read_once_and_databases_made_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    loaded = ScriptDirectory._load_revisions
    monkeypatch.setattr(
        ScriptDirectory, "_load_revisions", lambda self: read.append(self.dir) or loaded(self)
    )
    for name in ("ours", "other"):
        monkeypatch.setenv("DAGSTER_HOME", "")
        with open_instance(prepare(Settings(home=tmp_path / name)) / "dagster") as instance:
            instance.report_runless_asset_event(dg.AssetMaterialization("a", partition="p"))
            assert instance.get_materialized_partitions(dg.AssetKey("a")) == {"p"}
    assert len(read) == len(set(read))


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

"""The event log's shared engines: fewer of them, the same events, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log.sqlite import sqlite_event_log as storage

from orchestration.event_log import opened_instance, plain_failures, shared_engines
from orchestration.settings import Settings, prepare
from warehouse.errors import AssayError


def test_events_go_through_a_handful_of_engines(tmp_path: Path) -> None:
    before = storage.create_engine
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance, shared_engines() as engines:
        for number in range(20):
            instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=f"p{number}"))
        assert 1 <= len(engines) <= 3
        assert all(engine.pool.checkedin() for engine in engines.values()), "a connection is kept"
        assert instance.get_materialized_partitions(dg.AssetKey("a")) == {f"p{n}" for n in range(20)}
    assert storage.create_engine is before


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
        with opened_instance(prepare(Settings(home=tmp_path / name)) / "dagster") as instance:
            instance.report_runless_asset_event(dg.AssetMaterialization("a", partition="p"))
            assert instance.get_materialized_partitions(dg.AssetKey("a")) == {"p"}
    assert len(read) == len(set(read))


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

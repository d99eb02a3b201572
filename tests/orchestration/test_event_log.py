"""The event log's shared engines: fewer of them, the same events, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log.sqlite import sqlite_event_log as storage

from orchestration.event_log import shared_engines


def test_events_go_through_a_handful_of_engines(tmp_path: Path) -> None:
    before = storage.create_engine
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance, shared_engines() as engines:
        for number in range(20):
            instance.report_runless_asset_event(dg.AssetMaterialization("a", partition=f"p{number}"))
        assert 1 <= len(engines) <= 3
        assert instance.get_materialized_partitions(dg.AssetKey("a")) == {f"p{n}" for n in range(20)}
    assert storage.create_engine is before

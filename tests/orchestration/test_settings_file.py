"""`dagster.yaml` of a home: written once, brought up to date, and a person's own left alone."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import TickStatus

from orchestration.settings import INSTANCE, OUTDATED, Settings, prepare


@pytest.mark.parametrize("before", [None, *OUTDATED])
def test_ticks_are_purged_also_in_a_home_of_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    place = tmp_path / "dagster" / "dagster.yaml"
    place.parent.mkdir()
    if before is not None:
        place.write_text(before)
    prepare(Settings(home=tmp_path))
    assert place.read_text() == INSTANCE
    with dg.DagsterInstance.get() as instance:
        for kind in (InstigatorType.SENSOR, InstigatorType.SCHEDULE, InstigatorType.AUTO_MATERIALIZE):
            days = instance.get_tick_retention_settings(kind)
            assert 0 < days[TickStatus.SKIPPED] <= days[TickStatus.SUCCESS] <= 90


def test_what_a_person_wrote_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    place = tmp_path / "dagster" / "dagster.yaml"
    place.parent.mkdir()
    place.write_text("telemetry: {enabled: false}\n# ours\n")
    prepare(Settings(home=tmp_path))
    assert "# ours" in place.read_text()

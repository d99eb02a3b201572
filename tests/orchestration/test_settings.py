"""The settings of Dagster's instance: what ours are for, and that a person's own stay."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pytest
import yaml

from rag_assay.orchestration.settings import INSTANCE, Settings, instance_folder, prepare
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

EARLIER = "telemetry:\n  enabled: false\nnux:\n  enabled: false\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ASSAY_HOME", "DAGSTER_HOME"):
        monkeypatch.setenv(name, "")
    (tmp_path / "dagster").mkdir()
    return tmp_path


def prepared(home: Path, before: str | None = None) -> str:
    path = home / "dagster" / "dagster.yaml"
    if before is not None:
        path.write_text(before)
    prepare(Settings(home=home))
    once = path.read_text()
    prepare(Settings(home=home))
    assert path.read_text() == once, "a second start changes nothing"
    assert [one.name for one in path.parent.iterdir()] == ["dagster.yaml"]
    return once


@pytest.mark.parametrize("before", [None, "", EARLIER, EARLIER.rstrip("\n"), EARLIER.replace("\n", "\r\n")])
def test_new_homes_and_those_of_earlier_versions_have_the_same_settings(
    home: Path, before: str | None
) -> None:
    assert yaml.safe_load(prepared(home, before)) == yaml.safe_load("".join(INSTANCE.values()))
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        assert instance.run_retries_enabled
        assert instance.run_retries_max_retries == 2
        assert not instance.run_retries_retry_on_asset_or_op_failure, "an asset that fails would fail again"
        pools = instance.get_concurrency_config().pool_config
        assert (str(pools.pool_granularity.value), pools.default_pool_limit) == ("run", 1)  # type: ignore[union-attr]
        kept = {kind: one["purge_after_days"] for kind, one in instance.get_settings("retention").items()}
        assert set(kept) >= {"schedule", "sensor"}
        assert all(0 < days["skipped"] <= days["success"] <= 90 for days in kept.values())


@pytest.mark.parametrize(
    "mine",
    [
        "concurrency:\n  pools: {default_limit: 7}\n",
        "run_retries: {enabled: false}\n",
        "run_retries:\n  enabled: true\n  max_retries: 9  # mine\n\nconcurrency: {}\n",
        "run_queue:\n  max_concurrent_runs: 3\n",
        '"concurrency":\n  pools: {default_limit: 4}\n',
    ],
)
def test_what_a_person_has_written_stays(home: Path, mine: str) -> None:
    found = prepared(home, f"# my own\n{mine}")
    assert found.startswith(f"# my own\n{mine}")
    read = yaml.safe_load(found)
    assert {name: read[name] for name in yaml.safe_load(mine)} == yaml.safe_load(mine)
    assert {"telemetry", "nux"} <= set(read)
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        assert instance.get_concurrency_config() is not None, "Dagster takes both together"


@pytest.mark.parametrize("mine", ["{telemetry: {enabled: false}}\n", "# a comment alone\n- what is this\n"])
def test_a_file_in_another_form_is_left_alone(home: Path, mine: str) -> None:
    assert prepared(home, mine) == mine


def test_a_given_instance_is_kept_as_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = home / "elsewhere"
    given.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(given))
    prepare(Settings(home=home / "home"))
    assert instance_folder(Home(home / "home")) == given
    assert not list(given.iterdir())
    monkeypatch.setenv("DAGSTER_HOME", str(home / "nowhere"))
    with pytest.raises(InputError, match="nowhere is not a folder"):
        prepare(Settings(home=home / "home"))


def test_the_instance_that_was_set_for_one_home_is_none_of_another(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second", "first"):
        prepare(Settings(home=home / name))
        assert instance_folder(Home(home / name)) == home / name / "dagster"
        assert os.environ["DAGSTER_HOME"] == str(home / name / "dagster")

"""Stages as Dagster assets, run as Dagster runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assay.assets.engine.definition import (
    IDENTITY_TAG,
    OPTIONS,
    RunOptions,
    as_assets,
    partition_mappings,
    partitions,
    recipe_versions,
)
from rag_assay.assets.engine.stage import KeyOutcome, Stage
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home
from tests.fakes.stages import Letters, Words


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    return ArtifactStore(Home(tmp_path))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        yield found


@pytest.fixture
def letters() -> Letters:
    return Letters({"k1": "a", "k2": "b", "k3": "c"})


@pytest.fixture
def words() -> Words:
    return Words({"w1": ["k1", "k2"], "w2": ["k3"]})


class Runs:
    """Runs ranges of a stage over one instance."""

    def __init__(self, instance: dg.DagsterInstance, *stages: Stage) -> None:
        self.instance = instance
        self.outcomes: list[KeyOutcome] = []
        self.definitions = dg.Definitions(
            assets=[one for stage in stages for one in as_assets(stage)],
            resources={OPTIONS: RunOptions(report=self.outcomes.append)},
        )

    def range(self, stage: Stage, first: str, last: str) -> dg.ExecuteInProcessResult:
        return self.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey(stage.name)],
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last},
        )

    def logged(self, stage: Stage) -> dict[str, Any]:
        """Partition -> its materialization; each must be there once."""
        records = self.instance.fetch_materializations(dg.AssetKey(stage.name), limit=100).records
        found = [record.asset_materialization for record in records]
        by_key = {str(one.partition): one for one in found if one is not None}
        assert len(by_key) == len(found), "a key was logged twice"
        return dict(sorted(by_key.items()))


def test_a_range_logs_one_materialization_a_key(
    store: ArtifactStore, instance: dg.DagsterInstance, letters: Letters, words: Words
) -> None:
    runs = Runs(instance, letters, words)
    assert runs.range(letters, "k1", "k3").success
    assert runs.range(words, "w1", "w2").success
    assert [outcome.key for outcome in runs.outcomes] == ["k1", "k2", "k3", "w1", "w2"]
    logged = runs.logged(letters)
    assert list(logged) == ["k1", "k2", "k3"]
    for key, one in logged.items():
        artifact = store.current("letters", key)
        assert artifact is not None
        assert one.tags["dagster/data_version"] == artifact.data_version
        assert one.tags["dagster/code_version"] == "1"
        assert one.tags[IDENTITY_TAG] == artifact.identity
        assert one.tags["dagster/input_data_version/letters_recipes"] == letters.recipes(key)[f"letter.{key}"]
        assert one.metadata["length"].value == 1
    word = runs.logged(words)["w2"]
    upstream = store.current("letters", "k3")
    assert upstream is not None
    assert word.tags["dagster/input_data_version/letters"] == upstream.data_version
    assert int(word.tags["dagster/input_event_pointer/letters"]) > 0


def test_a_key_that_fails_fails_the_run_and_the_others_are_materialized(
    store: ArtifactStore, instance: dg.DagsterInstance, letters: Letters
) -> None:
    letters.failing = {"k2": AssayError("letters of k2: the folder is gone")}
    runs = Runs(instance, letters)
    result = runs.range(letters, "k1", "k3")
    assert not result.success
    assert list(runs.logged(letters)) == ["k1", "k3"]
    failures = [str(event.step_failure_data) for event in result.all_events if event.is_step_failure]
    assert len(failures) == 1
    assert "1 of 3 letters failed:" in failures[0]
    assert "k2: letters of k2: the folder is gone" in failures[0]
    letters.failing = {}
    assert runs.range(letters, "k2", "k2").success
    assert list(runs.logged(letters)) == ["k1", "k2", "k3"]
    assert letters.built == ["k1", "k2", "k3", "k2"]


def test_an_incomplete_key_is_not_materialized(
    store: ArtifactStore, instance: dg.DagsterInstance, letters: Letters
) -> None:
    letters.incomplete = {"k1"}
    runs = Runs(instance, letters)
    assert not runs.range(letters, "k1", "k2").success
    assert list(runs.logged(letters)) == ["k2"]
    assert store.current("letters", "k1") is not None, "its rows are there nevertheless"


def test_checks_are_logged_a_partition_each(
    store: ArtifactStore, instance: dg.DagsterInstance, letters: Letters
) -> None:
    result = Runs(instance, letters).range(letters, "k1", "k2")
    found = {check.partition: check.passed for check in result.get_asset_check_evaluations()}
    assert found == {"k1": True, "k2": False}


def test_every_recipe_of_a_stage_is_a_partition_with_its_digest(letters: Letters, words: Words) -> None:
    versions = recipe_versions(letters)
    assert sorted(versions) == ["letter.k1", "letter.k2", "letter.k3"]
    assert sorted(recipe_versions(words)) == ["sign"]
    before = dict(versions)
    letters.texts["k2"] = "z"
    changed = recipe_versions(letters)
    assert {name for name in changed if changed[name] != before[name]} == {"letter.k2"}


def test_a_recipe_whose_file_is_gone_does_not_hide_the_others(letters: Letters) -> None:
    class Gone(Letters):
        def recipes(self, key: str) -> dict[str, str]:
            if key == "k1":
                raise AssayError("there is no /letters")
            return super().recipes(key)

    assert sorted(recipe_versions(Gone(letters.texts))) == ["letter.k2", "letter.k3"]


def test_partitions_map_to_what_they_are_built_from(letters: Letters, words: Words) -> None:
    assert partitions(words).get_partition_keys() == ["w1", "w2"]
    found = partition_mappings(words)["letters"]
    up, down = partitions(letters), partitions(words)

    def parents(key: str) -> set[str]:
        subset = down.subset_with_partition_keys([key])
        return set(
            found.get_upstream_mapped_partitions_result_for_partitions(
                subset, down, up
            ).partitions_subset.get_partition_keys()
        )

    assert parents("w1") == {"k1", "k2"}
    assert parents("w2") == {"k3"}


def test_a_stage_without_keys_has_a_placeholder() -> None:
    assert partitions(Letters({})).get_partition_keys() == ["none"]


def test_a_stage_without_keys_can_be_materialized_with_all_others(
    store: ArtifactStore, instance: dg.DagsterInstance, letters: Letters
) -> None:
    nothing = Words({})
    runs = Runs(instance, letters, nothing)
    assert partitions(nothing).get_partition_keys() == ["none"], "Dagster wants one"
    assert runs.range(nothing, "none", "none").success
    assert set(runs.logged(nothing)) == {"none"}, "else a backfill of all assets would end as failed"
    assert runs.outcomes == []

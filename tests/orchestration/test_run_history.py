"""The log of runs stays small, and forgets nothing that an asset still points at."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from rag_assay.orchestration.runs.home_lock import prune

OURS = {"assay/workspace": "here:/var"}
FRUIT = dg.StaticPartitionsDefinition(["apple", "pear"])


def materialize(instance: dg.DagsterInstance, partition: str, version: int) -> str:
    @dg.asset(partitions_def=FRUIT)
    def fruit() -> dg.MaterializeResult:
        return dg.MaterializeResult(data_version=dg.DataVersion(str(version)))

    result = dg.materialize([fruit], instance=instance, partition_key=partition, tags=OURS)
    return result.run_id


def versions(instance: dg.DagsterInstance) -> dict[str, str]:
    found = instance.event_log_storage.get_latest_tags_by_partition(
        dg.AssetKey("fruit"),
        dg.DagsterEventType.ASSET_MATERIALIZATION,
        tag_keys=["dagster/data_version"],
    )
    return {key: tags["dagster/data_version"] for key, tags in found.items()}


def test_superseded_runs_go_and_what_is_shown_stays(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        pear = materialize(instance, "pear", 0)  # never made again
        apples = [materialize(instance, "apple", number) for number in range(3)]
        before = versions(instance)
        assert prune(instance, OURS, kept=1, slack=0) == 2
        assert {run.run_id for run in instance.get_runs()} == {pear, apples[-1]}
        assert versions(instance) == before == {"pear": "0", "apple": "2"}
        assert instance.get_materialized_partitions(dg.AssetKey("fruit")) == {"apple", "pear"}
        assert (
            prune(instance, OURS, kept=1, slack=0) == 0
        )  # the one that had to stay is no reason to look again
        assert versions(instance) == before


def test_a_run_that_holds_the_latest_of_one_partition_stays(tmp_path: Path) -> None:
    @dg.asset(partitions_def=FRUIT, backfill_policy=dg.BackfillPolicy.single_run())
    def fruit() -> None: ...

    whole = {"dagster/asset_partition_range_start": "apple", "dagster/asset_partition_range_end": "pear"}
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        first = dg.materialize([fruit], instance=instance, tags=whole | OURS).run_id
        apples = [materialize(instance, "apple", number) for number in range(3)]
        assert prune(instance, OURS, kept=1, slack=0) == 2
        assert {run.run_id for run in instance.get_runs()} == {first, apples[-1]}
        materialize(instance, "pear", 1)
        assert prune(instance, OURS, kept=1, slack=-1) == 1
        assert not instance.has_run(first)


def test_an_asset_without_partitions_keeps_its_latest_run(tmp_path: Path) -> None:
    @dg.asset
    def whole() -> None: ...

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        runs = [dg.materialize([whole], instance=instance, tags=OURS).run_id for _ in range(3)]
        assert prune(instance, OURS, kept=0, slack=0) == 2
        assert [run.run_id for run in instance.get_runs()] == runs[-1:]


def test_runs_that_had_to_stay_are_not_looked_through_at_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[int]()
    records = dg.DagsterInstance.get_run_records
    monkeypatch.setattr(
        dg.DagsterInstance, "get_run_records", lambda *args: [looks.append(1), records(*args)][1]
    )
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for partition in ("apple", "pear", "apple", "pear"):
            materialize(instance, partition, 0)
        counts = [prune(instance, OURS, kept=0, slack=1) for _ in range(5)]
        assert counts == [2, 0, 0, 0, 0]
        assert len(looks) == 1
        materialize(instance, "apple", 1)
        assert prune(instance, OURS, kept=0, slack=1) == 0
        materialize(instance, "apple", 2)
        assert prune(instance, OURS, kept=0, slack=1) == 2
        assert len(looks) == 2


def test_a_short_history_and_runs_under_way_are_left_alone(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        runs = {materialize(instance, "apple", number) for number in range(3)}
        assert prune(instance, OURS, kept=2, slack=1) == 0
        (oldest, *_) = sorted(
            instance.get_runs(), key=lambda run: instance.get_run_stats(run.run_id).start_time
        )
        instance.run_storage.handle_run_event(
            oldest.run_id,
            dg.DagsterEvent(dg.DagsterEventType.PIPELINE_START.value, job_name=oldest.job_name),
        )
        assert instance.get_run_by_id(oldest.run_id).status is dg.DagsterRunStatus.STARTED
        prune(instance, OURS, kept=0, slack=0)
        left = {run.run_id for run in instance.get_runs()}
        assert oldest.run_id in left
        assert len(left) == 2  # and the one that the partition points at
        assert left <= runs


def test_runs_of_another_project_or_workspace_stay(tmp_path: Path) -> None:
    @dg.asset
    def other() -> None: ...

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        others = [{}, {"assay/workspace": "here:/elsewhere"}, {"team": "search"}]
        stay = {dg.materialize([other], instance=instance, tags=tags).run_id for tags in others for _ in "12"}
        apples = [materialize(instance, "apple", number) for number in range(3)]
        assert prune(instance, OURS, kept=0, slack=0) == 2
        assert {run.run_id for run in instance.get_runs()} == {*stay, apples[-1]}

"""The log of runs stays small, and forgets nothing that an asset still points at."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from orchestration.run_history import prune

FRUIT = dg.StaticPartitionsDefinition(["apple", "pear"])


def materialize(instance: dg.DagsterInstance, partition: str, version: int) -> str:
    @dg.asset(partitions_def=FRUIT)
    def fruit() -> dg.MaterializeResult:
        return dg.MaterializeResult(data_version=dg.DataVersion(str(version)))

    result = dg.materialize([fruit], instance=instance, partition_key=partition)
    return result.run_id


def versions(instance: dg.DagsterInstance) -> dict[str, str]:
    found = instance.event_log_storage.get_latest_tags_by_partition(
        dg.AssetKey("fruit"),
        dg.DagsterEventType.ASSET_MATERIALIZATION,
        tag_keys=["dagster/data_version"],
    )
    return {key: tags["dagster/data_version"] for key, tags in found.items()}


def shards(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "history" / "runs").glob("*.db")} - {"index", ""}


def test_superseded_runs_go_and_what_is_shown_stays(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        pear = materialize(instance, "pear", 0)  # never made again
        apples = [materialize(instance, "apple", number) for number in range(3)]
        before = versions(instance)
        assert prune(instance, kept=1, slack=0) == 3
        assert {run.run_id for run in instance.get_runs()} == {pear, apples[-1]}
        assert versions(instance) == before == {"pear": "0", "apple": "2"}
        assert shards(tmp_path) & {pear, *apples} == {pear, apples[-1]}
        assert instance.get_materialized_partitions(dg.AssetKey("fruit")) == {"apple", "pear"}
        assert instance.all_logs(pear) == []  # the UI opens its page: no steps, no error
        assert prune(instance, kept=1, slack=0) == 1  # again: the one that is pointed at
        assert versions(instance) == before


def test_a_short_history_and_runs_under_way_are_left_alone(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        runs = {materialize(instance, "apple", number) for number in range(3)}
        assert prune(instance, kept=2, slack=1) == 0
        (oldest, *_) = sorted(
            instance.get_runs(), key=lambda run: instance.get_run_stats(run.run_id).start_time
        )
        instance.run_storage.handle_run_event(
            oldest.run_id,
            dg.DagsterEvent(dg.DagsterEventType.PIPELINE_START.value, job_name=oldest.job_name),
        )
        assert instance.get_run_by_id(oldest.run_id).status is dg.DagsterRunStatus.STARTED
        prune(instance, kept=0, slack=0)
        left = {run.run_id for run in instance.get_runs()}
        assert oldest.run_id in left
        assert len(left) == 2  # and the one that the partition points at
        assert left <= runs


def test_old_backfills_and_evaluations_go_too(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        materialize(instance, "apple", 1)
        statuses = [BulkActionStatus.COMPLETED_SUCCESS] * 4 + [BulkActionStatus.REQUESTED]
        for number, status in enumerate(statuses):
            backfill = PartitionBackfill(
                backfill_id=f"backfill{number}",
                status=status,
                from_failure=False,
                tags={"of": "a test"},
                backfill_timestamp=float(number),
                asset_selection=[dg.AssetKey("fruit")],
            )
            instance.add_backfill(backfill)
        prune(instance, kept=2, slack=-2)
        left = {one.backfill_id for one in instance.get_backfills()}
        assert left == {"backfill2", "backfill3", "backfill4"}, "the newest, and the one that has not ended"

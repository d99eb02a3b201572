"""The log of runs stays small, and forgets nothing that an asset still points at."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy
from dagster._core.events import StepMaterializationData
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from rag_assay.orchestration import run_history
from rag_assay.orchestration.run_history import prune

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
        assert prune(instance, kept=1, slack=0) == 0  # the one that had to stay is no reason to look again
        assert versions(instance) == before


def rows(instance: dg.DagsterInstance, table: str, where: str = "TRUE") -> int:
    with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
        found = connection.execute(sqlalchemy.text(f"SELECT count(*) FROM {table} WHERE {where}"))  # noqa: S608
        return int(found.scalar_one())


def test_many_runs_leave_no_more_rows_than_a_few(tmp_path: Path) -> None:
    """Runs that change one partition, with a check and a changed recipe each."""
    sizes = list[tuple[int, ...]]()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        pear = materialize(instance, "pear", 0)
        for number in range(20):
            run = materialize(instance, "apple", number)
            tags = {"dagster/data_version": str(number)}
            observed = dg.AssetObservation("recipes", partition="bm25", tags=tags)
            instance.report_runless_asset_event(observed)
            outcome = dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey("fruit"), check_name="ripe", passed=True, metadata={}, partition="apple"
            )
            event = dg.DagsterEvent(
                dg.DagsterEventType.ASSET_CHECK_EVALUATION.value, "fruit", event_specific_data=outcome
            )
            instance.report_dagster_event(event, run)
            prune(instance, kept=2, slack=1)
            tables = ("event_logs", "asset_event_tags", "asset_check_executions")
            sizes.append((*(rows(instance, table) for table in tables), instance.get_runs_count()))
        assert all(max(of[10:]) <= max(of[6:10]) for of in zip(*sizes, strict=True))
        assert rows(instance, "asset_check_executions", f"run_id = '{run}'") == 1
        latest = instance.event_log_storage.get_latest_tags_by_partition(
            dg.AssetKey("recipes"), dg.DagsterEventType.ASSET_OBSERVATION, tag_keys=["dagster/data_version"]
        )
        assert latest["bm25"]["dagster/data_version"] == "19"
        assert versions(instance) == {"pear": "0", "apple": "19"}
        assert instance.get_run_by_id(pear)


def test_what_was_superseded_of_a_run_that_stays_goes(tmp_path: Path) -> None:
    """The first run holds the latest of one partition only, of the two that it made."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        first = materialize(instance, "pear", 0)
        logged = dg.AssetMaterialization("fruit", partition="apple", tags={"dagster/data_version": "0"})
        event = dg.DagsterEvent(
            dg.DagsterEventType.ASSET_MATERIALIZATION.value,
            "fruit",
            event_specific_data=StepMaterializationData(logged),
        )
        instance.report_dagster_event(event, first)
        of_first = f"run_id = '{first}' AND dagster_event_type = 'ASSET_MATERIALIZATION'"
        assert rows(instance, "event_logs", of_first) == 2
        for number in range(1, 4):
            materialize(instance, "apple", number)
        assert prune(instance, kept=1, slack=0) == 3
        assert rows(instance, "event_logs", of_first) == 1
        assert versions(instance) == {"pear": "0", "apple": "3"}


def test_runs_that_had_to_stay_are_not_looked_through_at_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[int]()
    latest = run_history._latest
    monkeypatch.setattr(run_history, "_latest", lambda instance: [looks.append(1), latest(instance)][1])
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for partition in ("apple", "pear", "apple", "pear"):
            materialize(instance, partition, 0)
        counts = [prune(instance, kept=0, slack=1) for _ in range(5)]
        assert counts == [4, 0, 0, 0, 0]
        assert len(looks) == 1
        materialize(instance, "apple", 1)
        assert prune(instance, kept=0, slack=1) == 0
        materialize(instance, "apple", 2)
        assert prune(instance, kept=0, slack=1) == 4
        assert len(looks) == 2


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

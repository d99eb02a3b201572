"""The schedule of a study, and how old its pages may be."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.automation import WEEKLY
from rag_assay.orchestration.study_definitions import definitions_of
from tests.fakes.tiny import write_study

DAILY = {"study: tiny": 'study: tiny\nschedule: "0 5 * * *"'}


def of(folder: Path, changes: dict[str, str]) -> dg.Definitions:
    return definitions_of([read_study(write_study(folder, changes))])


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('"0 5 * * *"', dg.DefaultScheduleStatus.STOPPED),
        ('{cron: "0 5 * * *"}', dg.DefaultScheduleStatus.STOPPED),
        ('{cron: "0 5 * * *", active: true}', dg.DefaultScheduleStatus.RUNNING),
    ],
)
def test_a_study_is_crawled_again_and_run_when_its_file_says(
    tmp_path: Path, said: str, status: dg.DefaultScheduleStatus
) -> None:
    definitions = of(tmp_path, {"study: tiny": f"study: tiny\nschedule: {said}"})
    repository = definitions.get_repository_def()
    schedule = repository.get_schedule_def("study_tiny_schedule")
    assert schedule.default_status is status
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 5 * * *", "UTC")
    tick = schedule.evaluate_tick(dg.build_schedule_context(repository_def=repository))
    (request,) = tick.run_requests or ()
    assert request.run_config == {"again": True}
    job = repository.get_job("study_tiny")
    assert dg.validate_run_config(job, dict(request.run_config))


def test_a_study_without_a_schedule_has_a_weekly_one_that_is_off(tmp_path: Path) -> None:
    definitions = of(tmp_path, {})
    repository = definitions.get_repository_def()
    names = {one.name for one in repository.schedule_defs}
    assert names == {"crawl_docs_schedule", "study_tiny_schedule"}
    schedule = repository.get_schedule_def("study_tiny_schedule")
    assert schedule.cron_schedule == WEEKLY
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert definitions.resolve_asset_graph().get(dg.AssetKey("pages")).freshness_policy is None


@pytest.mark.parametrize(
    ("changes", "gap"),
    [
        (DAILY, timedelta(days=1)),
        ({"path: docs}": 'path: docs, schedule: "0 5 * * 1"}'}, timedelta(days=7)),
        ({**DAILY, "path: docs}": 'path: docs, schedule: "0 5 * * 1"}'}, timedelta(days=1)),
    ],
)
def test_a_missed_crawl_is_a_warning_and_a_second_a_failure(
    tmp_path: Path, changes: dict[str, str], gap: timedelta
) -> None:
    policy = of(tmp_path, changes).resolve_asset_graph().get(dg.AssetKey("pages")).freshness_policy
    expected = dg.FreshnessPolicy.time_window(
        warn_window=gap + timedelta(hours=1), fail_window=2 * gap + timedelta(hours=1)
    )
    assert policy == expected, "a crawl may take an hour"

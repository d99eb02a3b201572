"""What is told of a study: once, whoever ran it; a channel that fails costs no run, and is tried again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import dagster as dg
import pytest

from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.evals.reporting.changes.results import entries_of
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.alerts.delivery import stored_events, tell
from rag_assay.orchestration.automation import alerts_sensor
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.history import add_record, history_records
from tests.fakes.commands import assay
from tests.fakes.receivers import IN_URL, Hook, hook
from tests.orchestration.conftest import Finished

GONE = "  gone: {llm: {model: openai/x, api_base: 'http://127.0.0.1:9/v1'}}\n"


@pytest.fixture
def told(finished: Finished) -> Iterator[Hook]:
    """A webhook whose URL somebody has typed into the study file."""
    with hook() as found:
        text = finished.path.read_text()
        finished.path.write_text(f"{text}alerts: {{webhook: '{found.url}', log: false}}\n")
        yield found


def another_leads(finished: Finished, *, tied: bool) -> None:
    """Add a result to the history in which another cell leads than did."""
    (now,) = history_records(finished.home, "town")
    leader = now["leader"]
    other = next(one["cell"] for one in now["standing"] if one["cell"] != leader)
    standing = [
        {**one, "tied": one["cell"] == other or tied, "rank": 1 if one["cell"] == other else 2}
        for one in now["standing"]
    ]
    before = {**now, "entry": "before", "since": "2026-11-16T05:00:00+00:00"}
    after = {**now, "entry": "after", "leader": other, "standing": standing}
    finished.home.history("town").unlink()
    assert add_record(finished.home, before)
    assert add_record(finished.home, after)


def test_a_run_is_told_of_once_until_it_has_ended_well(finished: Finished, told: Hook) -> None:
    text = finished.path.read_text()
    assert assay("run", str(finished.path)).returncode == 0
    assert told.posted == []
    finished.path.write_text(text.replace("generators:\n", "generators:\n" + GONE))
    told.replies = [(404, {})]
    done = assay("run", str(finished.path))
    assert done.returncode == 1
    assert "alert of town was not sent: the webhook at 127.0.0.1 answered 404" in done.stderr
    said = done.stderr + done.stdout
    assert len(told.posted) == 1, "the first event failed; no other was tried"
    told.posted.clear()
    told.replies = [(200, {})]
    assert assay("run", str(finished.path)).returncode == 1, "the alert was sent by the next run"
    assert {one["kind"] for one in told.events} == {"run"}
    assert "connection refused" in told.events[0]["text"]
    sent = len(told.posted)
    assert assay("run", str(finished.path)).returncode == 1
    assert len(told.posted) == sent, "the same failure is told once"
    done = assay("alerts", str(finished.path))
    assert done.stdout.endswith(": nothing is waiting\n")
    tried = assay("alerts", str(finished.path), "--test")
    assert tried.stdout.endswith(": sent\n")
    assert told.events[-1]["kind"] == "test"
    study = str(finished.path)
    others = [assay("run", study, "--dry-run"), assay("report", study), assay("list", study)]
    said += "".join(one.stderr + one.stdout for one in (done, tried, *others))
    kept = [path.read_bytes() for path in finished.home.root.rglob("*") if path.is_file()]
    assert len(kept) > 20
    for secret in IN_URL:
        assert secret not in said
        assert not any(secret.encode() in data for data in kept), "nothing of the home holds it"


def test_another_best_cell_is_told_with_figures_and_what_changed(finished: Finished, told: Hook) -> None:
    another_leads(finished, tied=False)
    study = read_study(finished.path)
    stages = stages_of(Grid([study]))
    tell(study, stages, finished.home)
    tell(study, stages, finished.home)
    (event,) = told.events
    assert event["kind"] == "best"
    assert event["report"] == str(finished.home.report("town"))
    assert "is significantly worse" in event["text"]
    assert "assay diff town@1 town" in event["text"]
    before, after = entries_of(finished.home, "town")
    assert event["figures"]["before"]["cell"] == before.leader
    assert event["figures"]["now"]["cell"] == after.leader


def test_a_leader_among_those_that_tie_is_told_only_where_it_is_asked_for(
    finished: Finished, told: Hook
) -> None:
    another_leads(finished, tied=True)
    study = read_study(finished.path)
    stages = stages_of(Grid([study]))
    assert [one.kind for one in stored_events("town", stages, finished.home)] == ["leader"]
    tell(study, stages, finished.home)
    assert told.posted == []
    study = finished.edit("log: false", "log: false, about: [leader]")
    tell(study, stages, finished.home)
    assert [one["kind"] for one in told.events] == ["leader"]


def test_the_sensor_tells_what_no_walk_has_told(finished: Finished, told: Hook) -> None:
    another_leads(finished, tied=False)
    study = read_study(finished.path)
    stages = stages_of(Grid([study]))
    sensor = alerts_sensor({"town": study}, stages, ProjectLayout())
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    with dg.instance_for_test() as instance:

        @dg.op
        def breaks() -> None:
            raise ValueError("no")

        @dg.job(tags={"assay/study": "town"})
        def refresh() -> None:
            breaks()

        @dg.job(tags={"assay/study": "town", "assay/workspace": "here"})
        def walked() -> None:
            breaks()

        for job in (refresh, walked):
            job.execute_in_process(instance=instance, raise_on_error=False)
        cursor = None
        for _ in range(2):
            context = dg.build_sensor_context(instance=instance, cursor=cursor)
            found = sensor(context)
            assert isinstance(found, dg.SkipReason)
            assert found.skip_message == "looked at town"
            cursor = context.cursor
        assert json.loads(str(cursor))["since"]
    assert sorted(one["kind"] for one in told.events) == ["best", "run"]
    assert Driver(study, finished.home).run().ok
    assert len(told.posted) == 2, "a walk finds it told"


def test_a_study_that_tells_nobody_says_how(finished: Finished) -> None:
    done = assay("alerts", str(finished.path), "--test")
    assert done.returncode == 2
    assert "ASSAY_ALERTS_EMAIL" in done.stderr
    assert (
        "'not an address' is not an e-mail address"
        in assay("alerts", str(finished.path), ASSAY_ALERTS_EMAIL="not an address").stderr
    )

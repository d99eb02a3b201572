"""The sensor that sends alerts of runs in the Dagster UI; `assay run` sends its own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg

from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.assets.engine.stage import Stage
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.alerts.delivery import channels_of, tell
from rag_assay.orchestration.alerts.journal import AlertEvent
from rag_assay.orchestration.names import WORKSPACE_TAG
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import home

LOOK = 60  # seconds between two looks
PARTITION = ("dagster/partition", "dagster/asset_partition_range_start")
MOST = 100  # failed runs that are looked at


def alerts_sensor(
    studies: Mapping[str, Study], stages: Mapping[str, Stage], layout: ProjectLayout
) -> dg.SensorDefinition:
    """Return the sensor that tells of studies what their home and failed runs say, off by default.

    What a run has sent is not sent again: the journal of the study knows. What was not sent is tried again.
    """

    @dg.sensor(
        name=layout.name("alerts"),
        minimum_interval_seconds=LOOK,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Tells those whom studies name under `alerts` of failed runs and checks, of another best "
        "cell and of spent budgets. Starts no run. Switched off until you start it.",
    )
    def alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        since, where, told = _since(context.cursor), home(), []
        now = datetime.now(UTC)
        failed = list(_failed(context.instance, since, studies))
        for name, study in studies.items():
            try:
                channels = channels_of(study)
            except AssayError:
                channels = []
            if channels:
                report = str(where.report(name))
                tell(
                    study,
                    stages,
                    where,
                    further=[_event(run, name, report) for run, of in failed if of == name],
                )
                told.append(name)
        context.update_cursor(json.dumps({"since": now.isoformat()}))
        return dg.SkipReason(f"looked at {', '.join(told)}" if told else "no study has `alerts`")

    return alerts


def _since(cursor: str | None) -> datetime:
    try:
        return datetime.fromisoformat(json.loads(cursor or "{}")["since"]) - timedelta(seconds=LOOK)
    except (ValueError, KeyError, TypeError):
        return datetime.now(UTC) - timedelta(seconds=2 * LOOK)


def _failed(
    instance: dg.DagsterInstance, since: datetime, studies: Mapping[str, Study]
) -> Iterator[tuple[dg.DagsterRun, str]]:
    wanted = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=since)
    for run in instance.get_runs(wanted, limit=MOST):
        if WORKSPACE_TAG not in run.tags:  # which tells by itself
            for name in _studies_of(run, studies):
                yield run, name


def _studies_of(run: dg.DagsterRun, studies: Mapping[str, Study]) -> Sequence[str]:
    tagged = run.tags.get("assay/study")
    if tagged:
        return [tagged] if tagged in studies else []
    keys = [run.tags[name] for name in PARTITION if name in run.tags]
    firsts = {key.partition(".")[0] for key in keys}
    return [
        name for name, study in studies.items() if firsts & {name, study.corpus.name, *study.corpus.sources}
    ]


def _event(run: dg.DagsterRun, study: str, report: str) -> AlertEvent:
    assets = sorted(key.to_user_string() for key in run.asset_selection or ())
    what = ", ".join(assets) or run.job_name
    return AlertEvent(
        digest(["failed run", study, run.run_id]),
        "run",
        study,
        f"{study}: a run of {what} failed in the Dagster UI",
        f"The run {run.run_id} of {what} failed. Its log has the reason; finished results are stored.",
        datetime.now(UTC).isoformat(timespec="seconds"),
        report,
        {"run": run.run_id, "assets": assets},
    )

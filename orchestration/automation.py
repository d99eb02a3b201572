"""Schedules, freshness policies, and sensors of changed documents, new ratings and alerts; off by default."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import dagster as dg
from dagster import AutomationCondition

from rag_assay.assets.engine.definition import recipe_observations
from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.assets.engine.stage import PartitionRef, Stage, is_by_recipe_of_now
from rag_assay.assets.recipes.build_half import Build
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.sections import Schedule
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.alerts.delivery import channels_of, tell
from rag_assay.orchestration.alerts.journal import AlertEvent, new_event
from rag_assay.orchestration.names import WORKSPACE_TAG, identifiers
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.cron import longest_gap
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import home

AFTER_SCORES = ("annotations", "judge_cards", "scores", "human_estimates", "leaderboard", "report")
"""The stages that depend on human ratings; no stage before them is run."""
LOOK = 30  # seconds between two looks at the files
LONGEST = 300.0  # seconds after which scores are followed up though people go on


def scores_sensor(
    stages: Mapping[str, Stage], jobs: Mapping[str, dg.JobDefinition], layout: ProjectLayout
) -> dg.SensorDefinition:
    """Return the sensor that runs the last stages of each study with new scores, off by default.

    It asks when no score came between two looks, or after five minutes though they come. Its cursor says of
    each study which version of the records was followed up, which was seen, and since when one is waiting.

    jobs: the jobs of the studies, by the studies' names
    """

    @dg.sensor(
        name=layout.name("new_scores_of_people"),
        jobs=list(jobs.values()),
        minimum_interval_seconds=LOOK,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Refreshes scores, leaderboard and report of a study when people have scored more of it; "
        "asks no model for an answer. Switched off until you start it.",
    )
    def new_scores(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        known, requests, waiting = _read(context.cursor), [], []
        scores, store, now = HumanScores(home()), ArtifactStore(home()), time.time()
        annotated = set(stages["annotations"].keys())
        for study in (name for name in scores.studies() if name in annotated):
            state, version = known.setdefault(study, {}), scores.version(study)
            if version == state.get("done"):
                known[study] = {"done": version}
                continue
            since = state.setdefault("since", now)
            is_quiet, state["seen"] = state.get("seen") == version, version
            if not is_quiet and now - since < LONGEST:
                waiting.append(f"people are scoring {study}")
            elif not _was_run(stages["leaderboard"], study, store):
                waiting.append(f"{study} has not been run; run it first: `assay run {study}`")
            else:
                key = f"{study}:{state.get('done', '')}:{version}"
                config = {"stages": list(AFTER_SCORES)}
                requests.append(dg.RunRequest(key, config, job_name=jobs[study].name))
                known[study] = {"done": version}
        why = "; ".join(waiting) or "there are no new ratings"
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else dg.SkipReason(why),
            cursor=json.dumps(known, sort_keys=True),
        )

    return new_scores


def _was_run(leaderboard: Stage, study: str, store: ArtifactStore) -> bool:
    """Return whether a study was run as its file is now; else a refresh would report cells that never ran."""
    there = store.current(leaderboard.name, study) is not None
    return there and is_by_recipe_of_now(leaderboard, study, store)


def _read(cursor: str | None) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return (
        {name: one for name, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}
    )


SLACK = timedelta(hours=1)  # that a crawl may take
WEEKLY = "0 6 * * 1"  # an hour after the crawls of sources that have no schedule of their own


def freshness_policy(grid: Grid) -> dg.FreshnessPolicy | None:
    """Return the policy of `pages`; None where no file says when its sources are crawled.

    Dagster holds a policy for an asset, not for its partitions, so that it is of the source that is crawled
    most often: a crawl missed is a warning, a second one a failure. What is made of pages has no policy:
    where a crawl finds nothing new, it is rightly left as it is.
    """
    gaps = [longest_gap(cron) for cron in _schedules(grid)]
    if not gaps:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=2 * min(gaps) + SLACK, warn_window=min(gaps) + SLACK)


def _schedules(grid: Grid) -> Iterator[str]:
    for source in grid.build.sources.values():
        if "schedule" in source.model_fields_set:
            yield source.schedule
    for study in grid.studies.values():
        if study.schedule is not None:
            yield study.schedule.cron


CARRIED = ("documents", "chunks", "enrichments", "embeddings", "indexes", "questions", "rankings")
"""What follows a changed document by itself, where it costs no money: no stage that generates or judges."""
AUTOMATION = "carry_changed_documents_on"
Condition = AutomationCondition[dg.AssetKey]


def crawl_schedules(build: Build, layout: ProjectLayout) -> list[dg.ScheduleDefinition]:
    names = identifiers(build.sources)
    return [
        _schedule(names[name], name, recipe.schedule, layout)
        for name, recipe in sorted(build.sources.items())
    ]


def _schedule(name: str, source: str, cron: str, layout: ProjectLayout) -> dg.ScheduleDefinition:
    job = dg.define_asset_job(
        layout.name(f"crawl_{name}"),
        selection=dg.AssetSelection.assets(*([*layout.prefix, one] for one in ("pages", "documents"))),
        description=f"Crawl {source} again and clean what changed.",
    )

    @dg.schedule(
        name=layout.name(f"crawl_{name}_schedule"),
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=f"Re-crawl of {source} ({cron} UTC); switched off until you start it.",
    )
    def crawl() -> dg.RunRequest:
        return dg.RunRequest(partition_key=source)

    return crawl


def study_schedules(
    studies: Mapping[str, Study], jobs: Mapping[str, dg.JobDefinition]
) -> list[dg.ScheduleDefinition]:
    """Return a schedule in UTC for each study, which crawls again; off unless its file says `active`."""
    return [
        _study_schedule(name, study.schedule or Schedule(cron=WEEKLY), jobs[name])
        for name, study in sorted(studies.items())
    ]


def _study_schedule(name: str, schedule: Schedule, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    status, text = (
        (dg.DefaultScheduleStatus.RUNNING, "On, as the study says.")
        if schedule.active
        else (dg.DefaultScheduleStatus.STOPPED, "Switched off until you start it.")
    )
    return dg.ScheduleDefinition(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=schedule.cron,
        execution_timezone="UTC",
        run_config={"again": True},
        default_status=status,
        description=f"Crawls the sources of {name} again and runs it ({schedule.cron} UTC). It may ask paid "
        f"models, within the budgets of the study. {text}",
    )


@dataclass(frozen=True)
class KeysCondition(AutomationCondition[dg.AssetKey]):
    """True of the partitions that `select` returns; title, text: name and description in the UI."""

    title: str
    text: str
    select: Callable[[Iterable[str]], frozenset[str]]

    @property
    def name(self) -> str:
        return self.title

    @property
    def description(self) -> str:
        return self.text

    def evaluate(self, context: dg.AutomationContext[dg.AssetKey]) -> dg.AutomationResult[dg.AssetKey]:
        candidates = context.candidate_subset
        keys = map(str, candidates.expensively_compute_partition_keys())
        found = candidates.compute_intersection_with_partition_keys(self.select(keys))
        return dg.AutomationResult(context, found)


def current_keys(stages: Mapping[str, Stage], name: str, keys: Iterable[str]) -> frozenset[str]:
    """Return the keys of a stage all of whose needs are up to date, and their needs, and so on."""
    store = ArtifactStore(home())
    known: dict[PartitionRef, bool] = {}

    def is_current(need: PartitionRef) -> bool:
        if need not in known:
            stage = stages[need.stage]
            known[need] = stage.fresh(need.key, store) is not None and all(
                is_current(one) for one in stage.needs(need.key)
            )
        return known[need]

    return frozenset(key for key in keys if all(is_current(need) for need in stages[name].needs(key)))


def automation_conditions(stages: Mapping[str, Stage]) -> dict[str, Condition]:
    """Return the conditions of carried stages: for partitions that cost nothing, nor do their inputs."""
    paid: set[PartitionRef] = set()
    found: dict[str, Condition] = {}
    for name in (name for name in stages if name in CARRIED):
        stage = stages[name]
        keys = frozenset(stage.keys())
        paying = {key for key in keys if any(need in paid for need in stage.needs(key)) or stage.spends(key)}
        paid |= {PartitionRef(name, key) for key in paying}
        found[name] = _condition(stages, name, keys - paying)
    return found


def _condition(stages: Mapping[str, Stage], name: str, free: frozenset[str]) -> Condition:
    """Return when a partition is built by itself: what it is made of has other contents, or it is new.

    An update that leaves the contents as they were makes nothing run. It waits for its turn, so that nothing
    is built twice, or of what failed. What was handled, here or by a run of the study, is not again.
    """
    changed = AutomationCondition.any_deps_match(AutomationCondition.data_version_changed())
    called_for = AutomationCondition.newly_missing() | changed.with_label("contents_or_recipe_changed")
    costs_nothing = KeysCondition(
        "costs_nothing",
        "Neither it nor anything that it is built from calls a model that costs money",
        free.intersection,
    )
    inputs_current = KeysCondition(
        "inputs_current",
        "All that it is built from exists and is up to date, back to the pages",
        partial(current_keys, stages, name),
    )
    condition = (
        costs_nothing
        & called_for.since_last_handled()
        & ~AutomationCondition.any_deps_in_progress()
        & ~AutomationCondition.in_progress()
        & inputs_current
    )
    return condition.with_label("carry_on_what_costs_nothing")


def automation_sensor(layout: ProjectLayout) -> dg.AutomationConditionSensorDefinition:
    return dg.AutomationConditionSensorDefinition(
        name=layout.name(AUTOMATION),
        target=dg.AssetSelection.assets(*([*layout.prefix, name] for name in CARRIED)),
        use_user_code_server=True,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Carries changed documents on to their rankings, stage by stage, where that costs no "
        "money; answers, judgements and reports are left to the job of the study. Off until you start it.",
    )


def recipes_sensor(stages: Sequence[Stage], layout: ProjectLayout) -> dg.SensorDefinition:
    @dg.sensor(
        name=layout.name("changed_recipes"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Notes which recipes of study files changed, so that what depends on them is shown as "
        "out of date, and carried on where that is switched on. Starts no run. Off until you start it.",
    )
    def changed_recipes(context: dg.SensorEvaluationContext) -> Iterator[dg.SensorResult | dg.SkipReason]:
        found = recipe_observations(stages, context.instance)
        if found:
            yield dg.SensorResult(asset_events=found)
        else:
            yield dg.SkipReason("no recipe has changed")

    return changed_recipes


ALERTS_LOOK = 60  # seconds between two looks at runs
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
        minimum_interval_seconds=ALERTS_LOOK,
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
                tell(study, stages, where, further=[_event(run, name) for run, of in failed if of == name])
                told.append(name)
        context.update_cursor(json.dumps({"since": now.isoformat()}))
        return dg.SkipReason(f"looked at {', '.join(told)}" if told else "no study has `alerts`")

    return alerts


def _since(cursor: str | None) -> datetime:
    try:
        return datetime.fromisoformat(json.loads(cursor or "{}")["since"]) - timedelta(seconds=ALERTS_LOOK)
    except (ValueError, KeyError, TypeError):
        return datetime.now(UTC) - timedelta(seconds=2 * ALERTS_LOOK)


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


def _event(run: dg.DagsterRun, study: str) -> AlertEvent:
    assets = sorted(key.to_user_string() for key in run.asset_selection or ())
    what = ", ".join(assets) or run.job_name
    title = f"a run of {what} failed in the Dagster UI"
    text = f"The run {run.run_id} of {what} failed. Its log has the reason; finished results are stored."
    figures = {"run": run.run_id, "assets": assets}
    return replace(new_event("failed run", study, [run.run_id], title, text, figures=figures), kind="run")

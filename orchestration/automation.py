"""Schedules of sources and studies, and what carries changed documents on; off until switched on."""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
from dagster import AutomationCondition
from dagster._core.asset_graph_view.entity_subset import EntitySubset
from dagster._core.definitions.declarative_automation.operands.subset_automation_condition import (
    SubsetAutomationCondition,
)
from dagster._record import record

from assets.engine.definition import RECIPES, recipe_versions
from assets.engine.stage import Need, Stage
from assets.recipes.merging import Build
from evals.study.study import Study
from orchestration.names import identifiers

CARRIED = ("documents", "chunks", "enrichments", "embeddings", "indexes", "questions", "rankings")
"""What follows a changed document by itself, where it costs no money: no stage that generates or judges."""
AUTOMATION = "carry_changed_documents_on"
Observations = list[dg.AssetObservation]


def crawl_schedules(build: Build) -> list[dg.ScheduleDefinition]:
    """Return a schedule for each source, off by default, in UTC."""
    names = identifiers(build.sources)
    return [_schedule(names[name], name, recipe.schedule) for name, recipe in sorted(build.sources.items())]


def _schedule(name: str, source: str, cron: str) -> dg.ScheduleDefinition:
    job = dg.define_asset_job(
        f"crawl_{name}",
        selection=dg.AssetSelection.assets("pages", "documents"),
        description=f"Crawl {source} again and clean what changed.",
    )

    @dg.schedule(
        name=f"crawl_{name}_schedule",
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
    """Return a schedule for each study whose file says when: it crawls again and brings the study up to date.

    jobs: the jobs of the studies, by the studies' names
    """
    return [
        dg.ScheduleDefinition(
            name=f"{jobs[name].name}_schedule",
            job=jobs[name],
            cron_schedule=study.schedule.cron,
            execution_timezone="UTC",
            run_config={"again": True},
            default_status=dg.DefaultScheduleStatus.RUNNING
            if study.schedule.active
            else dg.DefaultScheduleStatus.STOPPED,
            description=f"Crawls the sources of {name} again and runs it ({study.schedule.cron} UTC). It may "
            "ask paid models, within the budgets of the study. "
            + ("On, as the study says." if study.schedule.active else "Switched off until you start it."),
        )
        for name, study in sorted(studies.items())
        if study.schedule is not None
    ]


@record
class CostsNothing(SubsetAutomationCondition[dg.AssetKey]):
    """True of the partitions that can be built without asking a model that costs money.

    keys: these partitions
    """

    keys: frozenset[str]

    @property
    def name(self) -> str:
        """What the UI calls it."""
        return "costs_nothing"

    @property
    def description(self) -> str:
        """What the UI says of it."""
        return "Neither it nor anything it is built from asks a model that costs money"

    def compute_subset(self, context: dg.AutomationContext[dg.AssetKey]) -> EntitySubset[dg.AssetKey]:
        """Return those of the partitions in question that are free."""
        return context.candidate_subset.compute_intersection_with_partition_keys(self.keys)


def free_keys(stages: Mapping[str, Stage]) -> dict[str, frozenset[str]]:
    """Return the partitions of each carried stage that cost nothing, nor anything carried before them."""
    paid: set[Need] = set()
    found: dict[str, frozenset[str]] = {}
    for name in (name for name in stages if name in CARRIED):
        stage = stages[name]
        paid |= {Need(name, key) for key in stage.keys() if _is_paid(stage, key, paid)}
        found[name] = frozenset(key for key in stage.keys() if Need(name, key) not in paid)
    return found


def _is_paid(stage: Stage, key: str, paid: set[Need]) -> bool:
    return stage.spends(key) or any(need in paid for need in stage.needs(key))


def carried_on(free: frozenset[str]) -> AutomationCondition[dg.AssetKey]:
    """Return when a partition is built by itself: what it is made of has other contents, or it is new.

    An update that leaves the contents as they were makes nothing run. It waits until all that it is made of
    is there and nobody is at work on it. What was handled, here or by a run of the study, is not again.
    """
    others = AutomationCondition.any_deps_match
    changed = others(AutomationCondition.data_version_changed()).with_label("contents_or_recipe_changed")
    missing = others(AutomationCondition.missing()).ignore(dg.AssetSelection.assets(RECIPES))
    condition = (
        CostsNothing(keys=free)
        & (AutomationCondition.newly_missing() | changed).since_last_handled()
        & ~missing.with_label("something_it_is_made_of_is_missing")
        & ~AutomationCondition.any_deps_in_progress()
        & ~AutomationCondition.in_progress()
    )
    return condition.with_label("carry_on_what_costs_nothing")


def automated(
    assets: Sequence[dg.AssetsDefinition], stages: Mapping[str, Stage]
) -> list[dg.AssetsDefinition]:
    """Return the assets, the carried ones among them with the condition on which they are built."""
    conditions = {dg.AssetKey(name): carried_on(keys) for name, keys in free_keys(stages).items()}

    def conditioned(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(automation_condition=conditions.get(spec.key))

    return [one.map_asset_specs(conditioned) for one in assets]


def automation_sensor() -> dg.AutomationConditionSensorDefinition:
    """Return what looks at the conditions of the carried assets, off by default."""
    return dg.AutomationConditionSensorDefinition(
        name=AUTOMATION,
        target=dg.AssetSelection.assets(*CARRIED),
        use_user_code_server=True,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Carries changed documents on to their rankings, stage by stage, where that costs no "
        "money; answers, judgements and reports are left to the job of the study. Off until you start it.",
    )


def recipe_observations(stages: Sequence[Stage], instance: dg.DagsterInstance) -> Observations:
    """Return an observation of each recipe that is another one than Dagster has on record."""
    latest = instance.event_log_storage.get_latest_tags_by_partition(
        RECIPES, dg.DagsterEventType.ASSET_OBSERVATION, tag_keys=["dagster/data_version"]
    )
    return [
        dg.AssetObservation(RECIPES, partition=name, tags={"dagster/data_version": version})
        for name, version in recipe_versions(stages).items()
        if latest.get(name, {}).get("dagster/data_version") != version
    ]


def recipes_sensor(stages: Sequence[Stage]) -> dg.SensorDefinition:
    """Return what tells Dagster of changed recipes without a run, off by default."""

    @dg.sensor(
        name="changed_recipes",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Notes which recipes of the study files changed, so that what hangs on them is shown as "
        "out of date, and carried on where that is switched on. Starts no run. Off until you start it.",
    )
    def changed_recipes(context: dg.SensorEvaluationContext) -> Iterator[dg.SensorResult | dg.SkipReason]:
        found = recipe_observations(stages, context.instance)
        if found:
            yield dg.SensorResult(asset_events=found)
        else:
            yield dg.SkipReason("no recipe has changed")

    return changed_recipes

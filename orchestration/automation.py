"""Schedules, freshness policies and the automation of changed documents; off until switched on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

import dagster as dg
from dagster import AutomationCondition
from dagster._core.asset_graph_view.entity_subset import EntitySubset
from dagster._core.definitions.declarative_automation.operands.subset_automation_condition import (
    SubsetAutomationCondition,
)
from dagster._record import record

from rag_assay.assets.engine.definition import RECIPES, recipe_versions
from rag_assay.assets.engine.stage import PartitionRef, Stage
from rag_assay.assets.recipes.build_half import Build
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.names import identifiers
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.cron import longest_gap
from rag_assay.warehouse.paths import home

PAGES = dg.AssetKey("pages")
SLACK = timedelta(hours=1)  # that a crawl may take


def with_freshness(assets: Sequence[dg.AssetsDefinition], grid: Grid) -> list[dg.AssetsDefinition]:
    """Return the assets, `pages` with a policy where a file says when its sources are crawled.

    Dagster holds a policy for an asset, not for its partitions, so that it is of the source that is crawled
    most often: a crawl missed is a warning, a second one a failure. What is made of pages has no policy:
    where a crawl finds nothing new, it is rightly left as it is.
    """
    gaps = [longest_gap(cron) for cron in _schedules(grid)]
    if not gaps:
        return list(assets)
    policy = dg.FreshnessPolicy.time_window(fail_window=2 * min(gaps) + SLACK, warn_window=min(gaps) + SLACK)

    def timed(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(freshness_policy=policy) if spec.key == PAGES else spec

    return [one.map_asset_specs(timed) for one in assets]


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
        return "Neither it nor anything it is built from calls a model that costs money"

    def compute_subset(self, context: dg.AutomationContext[dg.AssetKey]) -> EntitySubset[dg.AssetKey]:
        """Return those of the partitions in question that are free."""
        return context.candidate_subset.compute_intersection_with_partition_keys(self.keys)


@record
class MadeOfWhatIsCurrent(SubsetAutomationCondition[dg.AssetKey]):
    """True of the partitions that are made of nothing that is out of date, missing or failed itself.

    current: gives of the keys of the stage those of which that is so now
    """

    current: Callable[[Iterable[str]], frozenset[str]]

    @property
    def name(self) -> str:
        """What the UI calls it."""
        return "made_of_what_is_current"

    @property
    def description(self) -> str:
        """What the UI says of it."""
        return "All that it is made of is there and up to date, back to the pages"

    def compute_subset(self, context: dg.AutomationContext[dg.AssetKey]) -> EntitySubset[dg.AssetKey]:
        """Return those of the partitions in question whose turn has come."""
        keys = context.candidate_subset.expensively_compute_partition_keys()
        found = self.current(str(key) for key in keys)
        return context.candidate_subset.compute_intersection_with_partition_keys(found)


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


def free_keys(stages: Mapping[str, Stage]) -> dict[str, frozenset[str]]:
    """Return the partitions of each carried stage that cost nothing, nor anything carried before them."""
    paid: set[PartitionRef] = set()
    found: dict[str, frozenset[str]] = {}
    for name in (name for name in stages if name in CARRIED):
        stage = stages[name]
        paid |= {PartitionRef(name, key) for key in stage.keys() if _is_paid(stage, key, paid)}
        found[name] = frozenset(key for key in stage.keys() if PartitionRef(name, key) not in paid)
    return found


def _is_paid(stage: Stage, key: str, paid: set[PartitionRef]) -> bool:
    return stage.spends(key) or any(need in paid for need in stage.needs(key))


def automation_condition(stages: Mapping[str, Stage], name: str, free: frozenset[str]) -> Condition:
    """Return when a partition is built by itself: what it is made of has other contents, or it is new.

    An update that leaves the contents as they were makes nothing run. It waits for its turn, so that nothing
    is built twice, or of what failed. What was handled, here or by a run of the study, is not again.
    """
    changed = AutomationCondition.any_deps_match(AutomationCondition.data_version_changed())
    called_for = AutomationCondition.newly_missing() | changed.with_label("contents_or_recipe_changed")
    condition = (
        CostsNothing(keys=free)
        & called_for.since_last_handled()
        & ~AutomationCondition.any_deps_in_progress()
        & ~AutomationCondition.in_progress()
        & MadeOfWhatIsCurrent(current=partial(current_keys, stages, name))
    )
    return condition.with_label("carry_on_what_costs_nothing")


def automate_assets(
    assets: Sequence[dg.AssetsDefinition], stages: Mapping[str, Stage]
) -> list[dg.AssetsDefinition]:
    """Return the assets, the carried ones among them with the condition on which they are built."""
    free = free_keys(stages)
    conditions = {dg.AssetKey(name): automation_condition(stages, name, keys) for name, keys in free.items()}

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


def recipe_observations(stages: Sequence[Stage], instance: dg.DagsterInstance) -> list[dg.AssetObservation]:
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

"""Stages as Dagster assets: partitioned, skippable, many keys a run, each recorded as it is committed."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import dagster as dg
from dagster import BetaWarning, PreviewWarning

from rag_assay.assets.engine.builder import build_keys
from rag_assay.assets.engine.stage import BuildContext, Check, Headline, KeyOutcome, Progress, Stage
from rag_assay.assets.engine.submission import (
    Submission,
    budgets_of,
    heartbeat,
    read_submission,
    refuse_other,
)
from rag_assay.assets.engine.table import preview_table
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.conversation_tables import write_conversations
from rag_assay.warehouse.errors import AssayError, CorruptFileError
from rag_assay.warehouse.garbage_collection import marked
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.budget import Budgets
from rag_assay.warehouse.paths import home
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.schemas import notes_of
from rag_assay.warehouse.study_records import add_keys
from rag_assay.warehouse.tables import (
    FILES,
    OF_STUDIES,
    sync,
    use_database,
    write_crawls,
    write_history,
    write_human_scores,
    write_llm_calls,
)

OPTIONS = "rag_assay_options"
"""The name, after the prefix, of the resource of `RunOptions`, which no other package has."""


def asset_key(stage: Stage, name: str = "") -> dg.AssetKey:
    return dg.AssetKey([*stage.layout.prefix, name or stage.name])


def partitions(stage: Stage) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition(stage.keys() or ["none"])


def partition_mappings(stage: Stage) -> dict[str, dg.StaticPartitionMapping]:
    """Return which partitions of the assets that a stage is shown to be built from go into which of it. By
    the assets' names: those of `lineage_of`, and that of the recipes.
    """
    recipes = recipes_name(stage)
    found: dict[str, dict[str, set[str]]] = {name: {} for name in (*lineage_of(stage), recipes)}
    for key in stage.keys():
        sources = [(need.stage, need.key) for need in stage.needs(key) if need.stage in found]
        for name, source in (*sources, *((recipes, one) for one in _recipes(stage, key))):
            found[name].setdefault(source, set()).add(key)
    return {
        name: dg.StaticPartitionMapping({source: sorted(keys) for source, keys in known.items()})
        for name, known in found.items()
    }


UNSHOWN = frozenset({"checks", "recipes", "made_of", "source", "by_cell", "inputs", "sha256", "cut_by"})
"""What an artifact keeps for later builds, which is not shown."""
MEANS = 12  # means that are shown as numbers


def key_metadata(stage: Stage, outcome: KeyOutcome, work: BuildContext) -> dict[str, Any]:
    """Return what is shown of a key that ended well; numbers stay numbers, so that the UI plots them."""
    artifact = outcome.artifact
    assert artifact is not None  # noqa: S101 -- only called for stored keys
    shown: dict[str, Any] = {
        "identity": artifact.identity,
        "computed": outcome.computed,
        "build_seconds": round(outcome.seconds, 3),
        **_of_table(stage, artifact, work),
    }
    for name, value in artifact.meta.items():
        if name in UNSHOWN or value is None:
            continue
        if name == "preview":
            shown[name] = dg.MetadataValue.md(value)
        elif name == "means":
            shown |= {f"mean {metric}": float(mean) for metric, mean in list(value.items())[:MEANS]}
        else:
            shown[name] = dg.MetadataValue.json(value) if isinstance(value, dict | list) else value
    if stage.counted:
        shown["dagster/row_count"] = artifact.meta.get(stage.counted)
    for name, path in stage.links(artifact.key, work.home).items():
        shown[name] = dg.MetadataValue.path(path)
    return shown


def _of_table(stage: Stage, artifact: Artifact, work: BuildContext) -> dict[str, Any]:
    if stage.table is None:
        return {}
    with suppress(CorruptFileError):
        found = preview_table(stage.table, stage.table_path(artifact, work.store))
        markdown = {name: dg.MetadataValue.md(text) for name, text in found.markdown.items()}
        return {"dagster/row_count": found.rows, **markdown}
    return {}


def asset_metadata(stage: Stage) -> dict[str, Any]:
    if stage.table is None:
        return {}
    notes = notes_of(stage.table.schema)
    columns = [
        dg.TableColumn(name, str(kind), description=notes.get(name))
        for name, kind in stage.table.schema.items()
    ]
    return {"dagster/column_schema": dg.TableSchema(columns)}


# Observable sources are beta and partitioned checks in preview; the versions of dagster are pinned, so
# the warnings are hidden.
warnings.filterwarnings("ignore", category=BetaWarning)
warnings.filterwarnings("ignore", category=PreviewWarning)

IDENTITY_TAG = "assay/identity"
ASKS_MODELS = "asks_models"
"""The tag that says whether building any key of an asset may cost money: `paid` or `free`."""
BUILT = "built"
"""The check that says of each key that failed why, and that it is there once it was built."""
BUILT_MEANS = "The partition could be built. A failure says why it could not."
REASONS = "reasons"
"""The entry of a failed run's metadata that says, by key, why it failed and what it needs is damaged."""
Result = dg.MaterializeResult[None] | dg.AssetCheckResult
ASKING = frozenset(
    {"documents", "enrichments", "rankings", "answers", "judgements", "judge_cards", "annotations"}
)  # stages that may call a model, or collect human ratings


@dataclass
class RunOptions:
    """The resource by which the driver steers its runs. The defaults are those of a backfill.

    again: run crawls again although nothing changed
    sound: artifacts that were found good (`BuildContext.sound`)
    progress: called with (label, done, of); report: with the outcome of each key
    """

    again: bool = True
    budgets: Budgets = field(default_factory=Budgets)
    sound: set[tuple[str, str, str]] = field(default_factory=set)
    progress: Progress = lambda _label, _done, _of: None
    report: Callable[[KeyOutcome], None] = lambda _outcome: None


def as_assets(
    stage: Stage,
    bounds: Mapping[str, int] | None = None,
    automation: dg.AutomationCondition[dg.AssetKey] | None = None,
    freshness: dg.FreshnessPolicy | None = None,
) -> tuple[dg.AssetsDefinition, dg.AssetsDefinition]:
    """Return the Dagster asset of a stage, and that of its recipes.

    A run covers any range of partitions; each committed key is a materialization with data version and
    provenance, and the run fails at its end if a key did. ``bounds``: of `backfill_bounds`.
    """
    partitions_def = partitions(stage)
    key = asset_key(stage)
    mappings = partition_mappings(stage)
    spec = dg.AssetSpec(
        key,
        group_name=stage.layout.group or stage.group,
        description=stage.description,
        deps=[dg.AssetDep(asset_key(stage, name), partition_mapping=one) for name, one in mappings.items()],
        partitions_def=partitions_def,
        code_version=stage.code_version,
        kinds=set(stage.kinds),
        owners=[f"team:{type(stage).__module__.split('.')[1]}"],
        tags={ASKS_MODELS: "paid" if any(map(stage.spends, stage.keys())) else "free"},
        metadata=asset_metadata(stage),
        skippable=True,
        automation_condition=automation,
        freshness_policy=freshness,
    )
    specs = [spec, _headline_spec(stage.headline, stage, spec)] if stage.headline else [spec]

    @dg.multi_asset(
        name=key.to_python_identifier(),
        specs=specs,
        backfill_policy=_backfill_policy(stage, bounds),
        op_tags=stage.layout.tags_of(stage.name),
        pool=stage.layout.pool_of(stage.name, stage.pool()),
        required_resource_keys={stage.layout.name(OPTIONS)},
        check_specs=_check_specs(stage, partitions_def),
        can_subset=not stage.crawls,  # makes the checks optional, which are logged a partition each
    )
    def materialize(context: dg.AssetExecutionContext) -> Iterator[Result]:
        yield from _materialized(stage, context)

    recipes = mappings[recipes_name(stage)].downstream_partition_keys_by_upstream_partition_key
    return materialize, _recipe_asset(stage, sorted(recipes))


def _check_specs(stage: Stage, partitions_def: dg.PartitionsDefinition[str]) -> list[dg.AssetCheckSpec]:
    wanted = [(asset_key(stage), name, text) for name, text in {**stage.checks, BUILT: BUILT_MEANS}.items()]
    if said := stage.headline:
        wanted.append((asset_key(stage, said.asset), said.check, f"{said.value} is what it was before."))
    return [
        dg.AssetCheckSpec(
            name,
            asset=asset,
            description=text,
            partitions_def=partitions_def,
            blocking=name in stage.blocking,
        )
        for asset, name, text in wanted
    ]


def _materialized(stage: Stage, context: dg.AssetExecutionContext) -> Iterator[Result]:
    """Bring the partitions of a run up to date, and fail at the end if any of them did. Keys are logged as
    they are committed; only a crawl, whose run has one key, is yielded, as Pipes requires.
    """
    options: RunOptions = getattr(context.resources, stage.layout.name(OPTIONS))
    cursor = context.instance.event_log_storage.get_maximum_record_id()
    known = set(stage.keys())
    if not known:
        # Its placeholder has nothing to be made of; left out, it would fail every backfill of all.
        context.log_event(dg.AssetMaterialization(asset_key(stage), partition=context.partition_keys[0]))
    submission = read_submission(context.run.tags)
    if submission is None:
        outcomes = bring_up(stage, [key for key in context.partition_keys if key in known], context, options)
    else:
        outcomes = _submitted(stage, context, submission)
    _raise_failures(stage, outcomes)
    for outcome in outcomes if stage.crawls else ():
        yield from _results(stage, outcome, BuildContext(home()), cursor)


def _submitted(stage: Stage, context: dg.AssetExecutionContext, submission: Submission) -> list[KeyOutcome]:
    keys = list(context.partition_keys)
    try:
        refuse_other(submission, stage, keys)
    except AssayError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
    budgets = budgets_of(submission, context.instance, context.run)
    with heartbeat(context.instance, context.run_id, budgets):
        return build_in_run(stage, keys, context, RunOptions(again=submission.again, budgets=budgets))


def bring_up(
    stage: Stage,
    keys: Sequence[str],
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    options: RunOptions,
) -> list[KeyOutcome]:
    outcomes = build_in_run(stage, keys, context, options)
    collect(stage, keys, outcomes, BuildContext(home(), options.progress, dagster=context))
    return outcomes


def build_in_run(
    stage: Stage,
    keys: Sequence[str],
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    options: RunOptions,
) -> list[KeyOutcome]:
    work = BuildContext(home(), options.progress, options.budgets, options.sound, context)
    cursor = context.instance.event_log_storage.get_maximum_record_id()
    failed_before = failed_keys(stage, context.instance)
    outcomes = []
    yielded = stage.crawls and isinstance(context, dg.AssetExecutionContext)
    building = build_keys(stage, keys, work, again=options.again)
    with closing(work), marked(work.home), closing(building) as built:
        for outcome in built:
            outcomes.append(outcome)
            options.report(outcome)
            for event in () if yielded else _events(stage, outcome, work, cursor):
                cast("dg.AssetExecutionContext", context).log_event(event)
            if outcome.error or (outcome.key in failed_before and not yielded):
                cast("dg.AssetExecutionContext", context).log_event(_built_check(stage, outcome))
            if outcome.error:
                context.log.error(f"{stage.name} of {outcome.key}: {outcome.error}")
    return outcomes


def failed_keys(stage: Stage, instance: dg.DagsterInstance) -> set[str]:
    """Return the keys of a stage that could not be built when they were built last."""
    check = dg.AssetCheckKey(asset_key(stage), BUILT)
    found = instance.event_log_storage.get_asset_check_partition_info([check])
    return {
        one.partition_key
        for one in found
        if one.partition_key is not None and one.latest_execution_status.value == "FAILED"
    }


def _built_check(stage: Stage, outcome: KeyOutcome) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=asset_key(stage),
        check_name=BUILT,
        passed=outcome.error is None,
        partition=outcome.key,
        description=outcome.error or "It is there.",
    )


def collect(stage: Stage, keys: Sequence[str], outcomes: Sequence[KeyOutcome], work: BuildContext) -> None:
    there = [outcome.key for outcome in outcomes if outcome.artifact]
    sync_all({stage.name: there}, work)
    if stage.name in OF_STUDIES:
        add_keys(work.home, stage.name, there)
    stage.on_committed(keys, work)
    stage.on_computed([outcome.key for outcome in outcomes if outcome.computed and outcome.artifact], work)
    if stage.crawls or (stage.name in ASKING and any(outcome.computed for outcome in outcomes)):
        sync_records(work)


def backfill_bounds(stages: Mapping[str, Stage]) -> dict[str, int]:
    """Return, by stage, how many partitions a backfill puts into one run: at least all. The bounds differ,
    since a backfill merges neighbours of equal partitions and policy into one run, where the second would be
    skipped.
    """
    bounds: dict[str, int] = {}
    for name, stage in stages.items():
        bound = max(2, len(stage.keys()))
        while bound in bounds.values():
            bound += 1
        bounds[name] = bound
    return bounds


def _backfill_policy(stage: Stage, bounds: Mapping[str, int] | None) -> dg.BackfillPolicy:
    """Return how a backfill makes runs of partitions: one each of a stage by source, else all in one."""
    if stage.by_source:
        return dg.BackfillPolicy.multi_run(1)
    return dg.BackfillPolicy.multi_run(bounds[stage.name]) if bounds else dg.BackfillPolicy.single_run()


def _events(
    stage: Stage, outcome: KeyOutcome, work: BuildContext, cursor: int | None
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    if outcome.ok and outcome.artifact:
        yield dg.AssetMaterialization(
            asset_key(stage),
            partition=outcome.key,
            metadata=key_metadata(stage, outcome, work),
            tags=_provenance(stage, outcome.artifact, work, cursor),
        )
        if stage.headline and stage.headline.value in outcome.artifact.meta:
            yield from _headline_events(stage.headline, stage, outcome.artifact, work)
    if outcome.artifact:
        for check in outcome.checks:
            yield dg.AssetCheckEvaluation(
                **_check_fields(stage, check), partition=outcome.key, blocking=check.blocking
            )


def _headline_spec(headline: Headline, stage: Stage, spec: dg.AssetSpec) -> dg.AssetSpec:
    return dg.AssetSpec(
        asset_key(stage, headline.asset),
        deps=[spec.key],
        skippable=True,
        group_name=spec.group_name,
        description=headline.description,
        partitions_def=spec.partitions_def,
        code_version=spec.code_version,
        kinds={"python"},
        owners=spec.owners,
        tags={ASKS_MODELS: "free"},
    )


def _headline_events(
    headline: Headline, stage: Stage, artifact: Artifact, work: BuildContext
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    meta, instance = artifact.meta, work.dagster.instance
    text, value = str(meta[headline.text]), str(meta[headline.value])
    key, upstream = asset_key(stage, headline.asset), asset_key(stage).to_user_string()
    of_key = dg.AssetRecordsFilter(key, asset_partitions=[artifact.key])
    records = instance.fetch_materializations(of_key, limit=1).records
    before = [str(one.asset_materialization.metadata[headline.value].value) for one in records]
    yield dg.AssetMaterialization(
        key,
        partition=artifact.key,
        description=text,
        metadata={headline.text: dg.MetadataValue.md(text), headline.value: value},
        tags={
            "dagster/data_version": digest([text, value]),
            "dagster/code_version": stage.code_version,
            f"dagster/input_data_version/{upstream}": artifact.data_version,
            # After that of its stage, which was logged just now.
            f"dagster/input_event_pointer/{upstream}": str(
                instance.event_log_storage.get_maximum_record_id() or 0
            ),
        },
    )
    yield dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=headline.check,
        passed=before in ([], [value]),
        partition=artifact.key,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{headline.value}: {value}, before: {before[0]}"
        if before
        else f"{headline.value}: {value}",
    )


def _results(stage: Stage, outcome: KeyOutcome, work: BuildContext, cursor: int | None) -> Iterator[Result]:
    assert outcome.artifact is not None  # noqa: S101 -- without one, it failed
    tags = _provenance(stage, outcome.artifact, work, cursor)
    version = dg.DataVersion(tags.pop("dagster/data_version"))
    yield dg.MaterializeResult(
        asset_key=asset_key(stage),
        metadata=key_metadata(stage, outcome, work),
        tags=tags,
        data_version=version,
    )
    for check in outcome.checks:
        yield dg.AssetCheckResult(**_check_fields(stage, check))
    yield dg.AssetCheckResult(asset_key=asset_key(stage), check_name=BUILT, passed=True)


def _check_fields(stage: Stage, check: Check) -> dict[str, Any]:
    return {
        "asset_key": asset_key(stage),
        "check_name": check.name,
        "passed": check.passed,
        "severity": dg.AssetCheckSeverity.ERROR if check.severe else dg.AssetCheckSeverity.WARN,
        "description": check.description,
        "metadata": check.metadata,
    }


def _provenance(stage: Stage, artifact: Artifact, work: BuildContext, cursor: int | None) -> dict[str, str]:
    tags = {
        "dagster/data_version": artifact.data_version,
        "dagster/code_version": stage.code_version,
        IDENTITY_TAG: artifact.identity,
    }
    versions: dict[str, list[str]] = {name: [] for name in lineage_of(stage)}
    for source in stage.inputs(artifact.key, work.store):
        if source.stage in versions:
            versions[source.stage].append(source.data_version)
    versions = {asset_key(stage, name).to_user_string(): found for name, found in versions.items()}
    versions[recipe_key(stage).to_user_string()] = list(stage.recipes(artifact.key).values())
    for name, found in versions.items():
        tags[f"dagster/input_data_version/{name}"] = found[0] if len(found) == 1 else digest(found)
        tags[f"dagster/input_event_pointer/{name}"] = str(cursor or 0)
    return tags


def sync_all(
    keys: Mapping[str, Sequence[str]],
    work: BuildContext,
    store: ArtifactStore | None = None,
    study: str | None = None,
) -> None:
    """Bring missing rows of stages' keys into DuckDB; other keys of ``study`` leave the `current_*` views."""
    wanted = {name: found for name, found in keys.items() if name in FILES and (found or study)}

    def bring(connection: Any) -> None:
        for name, found in wanted.items():
            sync(connection, store or work.store, name, found, work.say, study)

    if wanted:
        use_database(work.home, bring, work.say)


def sync_records(work: BuildContext) -> None:
    if mirror := mirror_of(work.home):
        mirror.bring_journals()
        mirror.pull("crawls")

    def bring(connection: Any) -> None:
        write_crawls(connection, work.home)
        write_llm_calls(connection, work.home)
        write_human_scores(connection, work.home)
        write_history(connection, work.home)
        write_conversations(connection, work.home)

    use_database(work.home, bring, work.say)


def _raise_failures(stage: Stage, outcomes: Sequence[KeyOutcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.error]
    if failed:
        lines = "\n".join(f"- {outcome.key}: {outcome.error}" for outcome in failed[:20])
        raise dg.Failure(
            description=f"{len(failed)} of {len(outcomes)} {stage.name} failed:\n{lines}",
            metadata={
                "failed": dg.MetadataValue.json([outcome.key for outcome in failed]),
                REASONS: dg.MetadataValue.json({one.key: [one.error, one.damaged] for one in failed}),
            },
            allow_retries=False,
        )


def lineage_of(stage: Stage) -> tuple[str, ...]:
    return stage.upstream if stage.lineage is None else stage.lineage


def recipes_name(stage: Stage) -> str:
    return stage.family or f"{stage.name}_recipes"


def recipe_key(stage: Stage) -> dg.AssetKey:
    return asset_key(stage, recipes_name(stage))


def _recipe_asset(stage: Stage, recipes: Sequence[str]) -> dg.AssetsDefinition:
    """Return the observable asset of the recipes of a stage: a partition each, its digest the data version,
    so that a changed recipe makes exactly its partitions stale.
    """
    key = recipe_key(stage)
    spec = dg.AssetSpec(
        key,
        group_name=stage.layout.group or "recipes",
        description=f"The recipes of the {stage.name}, from the study files. The data version of each is the "
        "digest of its parameters and code version.",
        partitions_def=dg.StaticPartitionsDefinition(recipes or ["none"]),
        skippable=True,
    )

    @dg.multi_observable_source_asset(name=f"observe_{key.to_python_identifier()}", specs=[spec])
    def observe(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        for observation in recipe_observations([stage], context.instance):
            context.log_event(observation)
        yield from ()

    return observe


def recipe_versions(stage: Stage) -> dict[str, str]:
    return {name: version for key in stage.keys() for name, version in _recipes(stage, key).items()}


def _recipes(stage: Stage, key: str) -> dict[str, str]:
    try:
        return stage.recipes(key)
    except AssayError:
        return {}  # a file that is not there now; the run says so


def recipe_observations(stages: Sequence[Stage], instance: dg.DagsterInstance) -> list[dg.AssetObservation]:
    """Return an observation of each recipe that is another one than Dagster has on record."""
    tag, found = "dagster/data_version", []
    for stage in stages:
        key, versions = recipe_key(stage), recipe_versions(stage)
        if not versions:
            continue
        latest = instance.event_log_storage.get_latest_tags_by_partition(
            key, dg.DagsterEventType.ASSET_OBSERVATION, tag_keys=[tag]
        )
        found += [
            dg.AssetObservation(key, partition=name, tags={tag: version})
            for name, version in versions.items()
            if latest.get(name, {}).get(tag) != version
        ]
    return found

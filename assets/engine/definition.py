"""Stages as Dagster assets: partitioned, skippable, many keys a run, each recorded as it is committed."""

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

import dagster as dg
from dagster import BetaWarning, PreviewWarning

from rag_assay.assets.engine.builder import build_key, build_keys
from rag_assay.assets.engine.metadata import asset_metadata, key_metadata
from rag_assay.assets.engine.partitions import mapping, partitions
from rag_assay.assets.engine.stage import BuildContext, Check, KeyOutcome, Progress, Stage
from rag_assay.assets.engine.submission import (
    Submission,
    budgets_of,
    heartbeat,
    read_submission,
    refuse_other,
)
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.conversation_tables import write_conversations
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.garbage_collection import marked
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.budget import Budgets
from rag_assay.warehouse.paths import home
from rag_assay.warehouse.remote import mirror_of
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

# Observable sources are beta and partitioned checks in preview; the versions of dagster are pinned, so nobody
# needs to be told at every start.
warnings.filterwarnings("ignore", category=BetaWarning)
warnings.filterwarnings("ignore", category=PreviewWarning)

RECIPES = dg.AssetKey("recipes")
IDENTITY_TAG = "assay/identity"
ASKS_MODELS = "asks_models"
"""The tag that says whether building any key of an asset may cost money: `paid` or `free`."""
REASONS = "reasons"
"""The entry of a failed run's metadata that says, by key, why it failed and what it needs is damaged."""
Result = dg.MaterializeResult[None] | dg.AssetCheckResult
ASKING = frozenset(
    {"documents", "enrichments", "rankings", "answers", "judgements", "judge_cards", "annotations"}
)  # stages that may ask a model, or have asked people


@dataclass
class RunOptions:
    """The resource by which the driver steers its runs: it sets the fields between them.

    The defaults are what a person's backfill means.

    again: run stages again that can be (crawls), although nothing changed
    budgets: what may be spent, over all stages that are run with these options
    sound: artifacts that were read and found good, over all of these stages (`BuildContext.sound`)
    progress: hears (label, done, of)
    report: hears how each key ended
    """

    again: bool = True
    budgets: Budgets = field(default_factory=Budgets)
    sound: set[tuple[str, str, str]] = field(default_factory=set)
    progress: Progress = lambda _label, _done, _of: None
    report: Callable[[KeyOutcome], None] = lambda _outcome: None


def as_asset(
    stage: Stage,
    stages: dict[str, Stage] | None,
    keys: Sequence[str] | None = None,
    bounds: Mapping[str, int] | None = None,
) -> dg.AssetsDefinition:
    """Return the Dagster asset of a stage.

    stages: all stages, for the arrows between them; None leaves the arrows out
    keys: its partitions, where not all of them: the driver runs just the keys that are not up to date, and a
        run plans, and pays for, every partition between the first and the last of its range
    bounds: of `backfill_bounds`, where there are backfills

    One run covers any range of its partitions. Each key that ends well is logged as a materialization with
    its data version and provenance as soon as it is committed; at the end the run fails if any key did.
    """
    partitions_def = partitions(stage) if keys is None else dg.StaticPartitionsDefinition(list(keys))
    spec = dg.AssetSpec(
        stage.name,
        group_name=stage.group,
        description=stage.description,
        deps=_arrows(stage, stages) if stages else [],
        partitions_def=partitions_def,
        code_version=stage.code_version,
        kinds=set(stage.kinds),
        owners=[f"team:{type(stage).__module__.split('.')[1]}"],
        tags={ASKS_MODELS: "paid" if any(map(stage.spends, stage.keys())) else "free"} if stages else {},
        metadata=asset_metadata(stage) if stages else {},
        skippable=True,
    )

    @dg.multi_asset(
        name=stage.name,
        specs=[spec],
        backfill_policy=_backfill_policy(stage, bounds),
        pool=stage.pool(),
        required_resource_keys={"options"},
        check_specs=[
            dg.AssetCheckSpec(
                name,
                asset=stage.name,
                description=text,
                partitions_def=partitions_def,
                blocking=name in stage.blocking,
            )
            for name, text in stage.checks.items()
        ],
        can_subset=not stage.crawls,  # makes the checks optional, which are logged a partition each
    )
    def materialize(
        context: dg.AssetExecutionContext,
    ) -> Iterator[Result]:
        yield from _materialized(stage, context)

    return materialize


def _materialized(stage: Stage, context: dg.AssetExecutionContext) -> Iterator[Result]:
    """Bring the partitions of a run up to date, and fail at the end if any of them did.

    Each key is logged as soon as it is committed. Only a crawl, whose run has one key, is yielded, as
    Pipes wants it.
    """
    options: RunOptions = context.resources.options
    cursor = context.instance.event_log_storage.get_maximum_record_id()
    known = set(stage.keys())
    if not known:
        # Its placeholder has nothing to be made of; left out, it would fail every backfill of all.
        context.log_event(dg.AssetMaterialization(stage.name, partition=context.partition_keys[0]))
    submission = read_submission(context.run.tags)
    if submission is None:
        outcomes = bring_up(stage, [key for key in context.partition_keys if key in known], context, options)
    else:
        outcomes = _submitted(stage, context, submission)
    _raise_failures(stage, outcomes)
    for outcome in outcomes if stage.crawls else ():
        yield from _results(stage, outcome, BuildContext(home()), cursor)


def _submitted(stage: Stage, context: dg.AssetExecutionContext, submission: Submission) -> list[KeyOutcome]:
    """Bring up to date what a driver has submitted; the rows are brought into DuckDB by the driver alone.

    Raises:
        dagster.Failure: the worker has other code or other recipes.
    """
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
    """Bring keys up to date in a run, each logged as soon as it is committed, and their rows into DuckDB."""
    outcomes = build_in_run(stage, keys, context, options)
    collect(stage, keys, outcomes, BuildContext(home(), options.progress, dagster=context))
    return outcomes


def build_in_run(
    stage: Stage,
    keys: Sequence[str],
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    options: RunOptions,
) -> list[KeyOutcome]:
    """Bring keys up to date in a run, each logged as soon as it is committed."""
    work = BuildContext(home(), options.progress, options.budgets, options.sound, context)
    cursor = context.instance.event_log_storage.get_maximum_record_id()
    outcomes = []
    yielded = stage.crawls and isinstance(context, dg.AssetExecutionContext)
    with closing(work), marked(work.home), closing(_built(keys, stage, work, options)) as built:
        for outcome in built:
            outcomes.append(outcome)
            options.report(outcome)
            for event in () if yielded else _events(stage, outcome, work, cursor):
                cast("dg.AssetExecutionContext", context).log_event(event)
            if outcome.error:
                context.log.error(f"{stage.name} of {outcome.key}: {outcome.error}")
    return outcomes


def collect(stage: Stage, keys: Sequence[str], outcomes: Sequence[KeyOutcome], work: BuildContext) -> None:
    """Bring the rows of keys that were brought up to date into DuckDB, and what was recorded meanwhile."""
    there = [outcome.key for outcome in outcomes if outcome.artifact]
    sync_all({stage.name: there}, work)
    if stage.name in OF_STUDIES:
        add_keys(work.home, stage.name, there)
    stage.on_committed(keys, work)
    if stage.crawls or (stage.name in ASKING and any(outcome.computed for outcome in outcomes)):
        sync_records(work)


def _built(
    keys: Sequence[str], stage: Stage, work: BuildContext, options: RunOptions
) -> Generator[KeyOutcome, None, None]:
    """Bring keys up to date; a crawl is told its own progress, and runs again when it is asked to."""
    if stage.crawls:
        return (build_key(stage, key, work, again=options.again) for key in keys)
    return build_keys(stage, keys, work)


def backfill_bounds(stages: Mapping[str, Stage]) -> dict[str, int]:
    """Return, by stage, how many partitions a backfill puts into one run: all of them.

    The bound, which the UI shows, is the number of partitions or a little more: it differs from stage to
    stage. A backfill puts neighbours with the same partitions and the same policy into one run, and there the
    second would be skipped: the first yields no output, for its keys are logged one by one.
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


def _arrows(stage: Stage, stages: dict[str, Stage]) -> list[dg.AssetDep]:
    return [
        *(dg.AssetDep(name, partition_mapping=mapping(stage, stages[name])) for name in stage.upstream),
        dg.AssetDep(RECIPES, partition_mapping=mapping(stage, None)),
    ]


def _events(
    stage: Stage, outcome: KeyOutcome, work: BuildContext, cursor: int | None
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Yield what is logged of a key: its materialization where it ended well, and its checks."""
    if outcome.ok and outcome.artifact:
        yield dg.AssetMaterialization(
            stage.name,
            partition=outcome.key,
            metadata=key_metadata(stage, outcome, work),
            tags=_provenance(stage, outcome.artifact, work, cursor),
        )
    if outcome.artifact:
        for check in outcome.checks:
            yield dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey(stage.name),
                check_name=check.name,
                passed=check.passed,
                severity=_severity(check),
                description=check.description,
                metadata=check.metadata,
                partition=outcome.key,
                blocking=check.blocking,
            )


def _results(stage: Stage, outcome: KeyOutcome, work: BuildContext, cursor: int | None) -> Iterator[Result]:
    """Yield what the run of one key that ended well gives back, with its checks."""
    assert outcome.artifact is not None  # noqa: S101 -- without one, it failed
    tags = _provenance(stage, outcome.artifact, work, cursor)
    version = dg.DataVersion(tags.pop("dagster/data_version"))
    yield dg.MaterializeResult(
        asset_key=stage.name, metadata=key_metadata(stage, outcome, work), tags=tags, data_version=version
    )
    for check in outcome.checks:
        yield dg.AssetCheckResult(
            asset_key=stage.name,
            check_name=check.name,
            passed=check.passed,
            severity=_severity(check),
            description=check.description,
            metadata=check.metadata,
        )


def _severity(check: Check) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if check.severe else dg.AssetCheckSeverity.WARN


def _provenance(stage: Stage, artifact: Artifact, work: BuildContext, cursor: int | None) -> dict[str, str]:
    """Return the tags by which Dagster tells whether a partition is out of date."""
    tags = {
        "dagster/data_version": artifact.data_version,
        "dagster/code_version": stage.code_version,
        IDENTITY_TAG: artifact.identity,
    }
    versions: dict[str, list[str]] = {name: [] for name in stage.upstream}
    for source in stage.inputs(artifact.key, work.store):
        versions[source.stage].append(source.data_version)
    versions[RECIPES.to_user_string()] = list(stage.recipes(artifact.key).values())
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
    """Bring the rows of the keys of stages, by the stages' names, into DuckDB, those that it lacks.

    store: which says what keys mean; None: that of ``work``
    study: whose keys these are, all of them: other keys of it leave the `current_*` views
    """
    wanted = {name: found for name, found in keys.items() if name in FILES and (found or study)}

    def bring(connection: Any) -> None:
        for name, found in wanted.items():
            sync(connection, store or work.store, name, found, work.say, study)

    if wanted:
        use_database(work.home, bring, work.say)


def sync_records(work: BuildContext) -> None:
    """Bring into DuckDB the records that it lacks: crawls, model calls, scores of people, conversations."""

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


def recipes_asset(stages: Sequence[Stage]) -> Any:
    """Return the observable source of all recipes: a partition a recipe, its digest the data version.

    A changed recipe so makes out of date exactly the partitions that hang on it.
    """
    versions = recipe_versions(stages)

    @dg.observable_source_asset(
        key=RECIPES,
        group_name="studies",
        description="The recipes of all study files: sources, chunkings, embedders, retrievers, generators; "
        "the data version of each is the digest of its parameters and code version.",
        partitions_def=dg.StaticPartitionsDefinition(sorted(versions) or ["none"]),
    )
    def recipes() -> dg.DataVersionsByPartition:
        return dg.DataVersionsByPartition(recipe_versions(stages))

    return recipes


def recipe_versions(stages: Sequence[Stage]) -> dict[str, str]:
    """Return name -> digest of every recipe that some stage hangs on."""
    found: dict[str, str] = {}
    for stage in stages:
        for key in stage.keys():
            try:
                found.update(stage.recipes(key))
            except AssayError:
                continue  # a file that is not there now; the run says so
    return found

"""New human ratings: a sensor refreshes what depends on them, once it is switched on."""

import json
import time
from collections.abc import Mapping
from typing import Any

import dagster as dg

from rag_assay.assets.engine.definition import OPTIONS, RunOptions, bring_up
from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.assets.engine.stage import PartitionRef, Stage, is_by_recipe_of_now
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import home

AFTER_SCORES = ("annotations", "judge_cards", "scores", "human_estimates", "leaderboard", "report")
"""The stages that depend on human ratings; no stage before them is run."""
LOOK = 30  # seconds between two looks at the files
LONGEST = 300.0  # seconds after which scores are followed up though people go on
REFRESH = "refresh_after_scores"
OP = "refresh"  # of its own name: the UI loads nothing where an op is called as a job is


def refresh_job(stages: Mapping[str, Stage], layout: ProjectLayout, options: object) -> dg.JobDefinition:
    """Return the job that updates what depends on the ratings of one study, in one run."""
    resource = layout.name(OPTIONS)

    @dg.op(
        name=layout.name(OP),
        config_schema={"study": dg.Field(str, description="The study that people have scored.")},
        required_resource_keys={resource},
        description="Join new human ratings to the cells, and measure, compare and report them.",
    )
    def refresh(context: dg.OpExecutionContext) -> None:
        study, options = context.op_config["study"], getattr(context.resources, resource)
        failed: list[str] = []
        for name in AFTER_SCORES:
            if name in stages:
                failed += _refreshed(stages[name], study, context, options)
        if failed:
            raise dg.Failure("\n".join(failed), allow_retries=False)

    @dg.job(
        name=layout.name(REFRESH),
        description="Refresh what depends on the human ratings of one study.",
        resource_defs={resource: options},
    )
    def job() -> None:
        refresh.alias(OP)()

    return job


def _refreshed(stage: Stage, study: str, context: dg.OpExecutionContext, options: RunOptions) -> list[str]:
    store = ArtifactStore(home())
    keys = [key for key in stage.keys() if key.partition(".")[0] == study]
    try:
        if stage.tolerates_gaps:
            while missing := _missing(stage, keys, store) - stage.without:
                stage.without |= missing
        lacking = {key for key in keys if not stage.needs(key) or _missing(stage, [key], store)}
        stale = [key for key in keys if key not in lacking and stage.fresh(key, store) is None]
        outcomes = bring_up(stage, stale, context, options) if stale else []
    finally:
        stage.without = frozenset()
    return [f"{stage.name} of {one.key}: {one.error}" for one in outcomes if one.error]


def _missing(stage: Stage, keys: list[str], store: ArtifactStore) -> frozenset[PartitionRef]:
    needs = {need for key in keys for need in stage.needs(key)}
    return frozenset(need for need in needs if store.current(need.stage, need.key) is None)


def scores_sensor(
    stages: Mapping[str, Stage], job: dg.JobDefinition, layout: ProjectLayout
) -> dg.SensorDefinition:
    """Return the sensor that asks for a refresh of each study with new scores, off by default.

    It asks when no score came between two looks, or after five minutes though they come. Its cursor says of
    each study which version of the records was followed up, which was seen, and since when one is waiting.
    """

    @dg.sensor(
        name=layout.name("new_scores_of_people"),
        job=job,
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
                waiting.append(f"{study} is to be run first: `assay run {study}`")
            else:
                key = f"{study}:{state.get('done', '')}:{version}"
                config = {"ops": {OP: {"config": {"study": study}}}}
                requests.append(dg.RunRequest(key, config, tags={"assay/study": study}))
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

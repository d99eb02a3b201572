"""New human ratings: a sensor refreshes what depends on them, once it is switched on."""

import json
import time
from collections.abc import Mapping
from typing import Any

import dagster as dg

from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.assets.engine.stage import Stage, is_by_recipe_of_now
from rag_assay.warehouse.artifacts import ArtifactStore
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

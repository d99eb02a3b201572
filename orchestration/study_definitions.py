"""The assets, checks, jobs, schedules and sensors of studies."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from rag_assay.assets.engine.definition import OPTIONS, as_assets, backfill_bounds
from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.automation import (
    alerts_sensor,
    automation_conditions,
    automation_sensor,
    crawl_schedules,
    freshness_policy,
    recipes_sensor,
    scores_sensor,
    study_schedules,
)
from rag_assay.orchestration.names import identifiers
from rag_assay.orchestration.resources import Workspace
from rag_assay.orchestration.runs.jobs import study_job
from rag_assay.orchestration.stages import stages_of


def definitions_of(
    studies: Sequence[Study],
    layout: ProjectLayout = ProjectLayout(),  # noqa: B008 -- it is frozen
    workspace: Workspace | None = None,
) -> dg.Definitions:
    """Return the definitions of studies, without resources or an executor that others could clash with."""
    grid = Grid(list(studies))
    stages = stages_of(grid, layout)
    bounds = backfill_bounds(stages)
    resource = workspace or Workspace()
    key = layout.name(OPTIONS)
    names = {name: layout.name(one) for name, one in identifiers(grid.studies).items()}
    jobs = {
        name: study_job(one.narrowed(None), names[name], layout=layout, options=resource)
        for name, one in sorted(grid.studies.items())
    }
    conditions, freshness = automation_conditions(stages), {"pages": freshness_policy(grid)}
    pairs = [
        as_assets(stage, bounds, conditions.get(name), freshness.get(name)) for name, stage in stages.items()
    ]
    schedules = [*crawl_schedules(grid.build, layout), *study_schedules(grid.studies, jobs)]
    return dg.Definitions(
        assets=[
            *(recipes for _, recipes in pairs),
            *dg.with_resources([one for one, _ in pairs], {key: resource}),
        ],
        schedules=schedules if layout.schedules else [],
        jobs=list(jobs.values()),
        sensors=[
            scores_sensor(stages, jobs, layout),
            alerts_sensor(grid.studies, stages, layout),
            recipes_sensor(list(stages.values()), layout),
            automation_sensor(layout),
        ],
    )

"""Every asset, check, job, schedule and sensor, made from the study files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import dagster as dg

from rag_assay.assets.engine.definition import OPTIONS, as_asset, backfill_bounds, recipe_asset
from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.assets.engine.submission import current_code
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.run_studies import recorded_studies
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_book
from rag_assay.evals.successive_halving.records import narrow_study
from rag_assay.orchestration.alerts.sensor import alerts_sensor
from rag_assay.orchestration.automation import (
    automate_assets,
    automation_sensor,
    crawl_schedules,
    recipes_sensor,
    study_schedules,
    with_freshness,
)
from rag_assay.orchestration.human_rating_sensor import refresh_job, scores_sensor
from rag_assay.orchestration.names import identifiers
from rag_assay.orchestration.resources import Workspace
from rag_assay.orchestration.runs.jobs import study_job
from rag_assay.orchestration.settings import prepare
from rag_assay.orchestration.stages import stages_of
from rag_assay.warehouse.paths import home


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
    refresh = refresh_job(stages, layout, resource)
    names = {name: layout.name(one) for name, one in identifiers(grid.studies).items()}
    jobs = {
        name: study_job(one.unsearched(), names[name], layout=layout)
        for name, one in sorted(grid.studies.items())
    }
    assets = automate_assets([as_asset(stage, stages, bounds=bounds) for stage in stages.values()], stages)
    assets = with_freshness(assets, grid, layout)
    schedules = [*crawl_schedules(grid.build, layout), *study_schedules(grid.studies, jobs)]
    return dg.Definitions(
        assets=[
            *map(recipe_asset, stages.values()),
            *dg.with_resources(assets, {key: resource}),
        ],
        schedules=schedules if layout.schedules else [],
        jobs=[refresh, *jobs.values()],
        sensors=[
            scores_sensor(stages, refresh, layout),
            alerts_sensor(grid.studies, stages, layout),
            recipes_sensor(list(stages.values()), layout),
            automation_sensor(layout),
        ],
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all study files and of studies that were run, for the Dagster UI."""
    return _current_definitions()


def __getattr__(name: str) -> dg.Definitions:
    """Return the current definitions under any name `defs_…`, by which a driver has them loaded again.

    A worker keeps what it has loaded of a module and an attribute, so that studies that were changed since
    need another attribute.
    """
    if not name.startswith("defs_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _loaded(name)


@lru_cache(maxsize=4)
def _loaded(_name: str) -> dg.Definitions:
    return _current_definitions()


def _current_definitions() -> dg.Definitions:
    current_code()  # so that it is the digest of the code that is in memory
    prepare()
    studies = read_book(also=recorded_studies(home())).studies.values()
    found = definitions_of([narrow_study(one, home()) for one in studies])
    return dg.Definitions.merge(found, dg.Definitions(executor=dg.in_process_executor))

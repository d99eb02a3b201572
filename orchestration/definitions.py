"""Every asset, check, job, schedule and sensor, made from the study files."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from assets.chunks import Chunks
from assets.documents import Documents
from assets.embeddings import Embeddings
from assets.engine.definition import RunOptions, as_asset, backfill_bounds, recipes_asset
from assets.engine.stage import Stage
from assets.enrichments import Enrichments
from assets.indexes import Indexes
from assets.pages import Pages
from evals.annotations import Annotations
from evals.answers import Answers
from evals.human_estimates import HumanEstimates
from evals.judge_cards import JudgeCards
from evals.judgements import Judgements
from evals.leaderboard import Leaderboard
from evals.questions import Questions
from evals.rankings import Rankings
from evals.report import Report
from evals.scores import Scores
from evals.study.grid import Grid
from evals.study.run_studies import noted
from evals.study.study import Study
from evals.study.study_file import read_book
from orchestration.automation import crawl_schedules
from orchestration.people_refresh import refresh_job, scores_sensor
from orchestration.settings import prepare
from warehouse.paths import home


def stages_of(grid: Grid) -> dict[str, Stage]:
    """Return all stages, each after those that it needs."""
    build = grid.build
    stages: list[Stage] = [
        Pages(build),
        Documents(build),
        Chunks(build),
        Enrichments(build),
        Embeddings(build),
        Indexes(build),
        Questions(grid),
        Rankings(grid),
        Answers(grid),
        Annotations(grid),
        Judgements(grid),
        JudgeCards(grid),
        Scores(grid),
        HumanEstimates(grid),
        Leaderboard(grid),
        Report(grid),
    ]
    return {stage.name: stage for stage in stages}


def definitions_of(studies: Sequence[Study]) -> dg.Definitions:
    """Return the Dagster definitions of these studies."""
    grid = Grid(list(studies))
    stages = stages_of(grid)
    bounds = backfill_bounds(stages)
    refresh = refresh_job(stages)
    return dg.Definitions(
        assets=[
            recipes_asset(list(stages.values())),
            *(as_asset(stage, stages, bounds=bounds) for stage in stages.values()),
        ],
        schedules=crawl_schedules(grid.build),
        jobs=[refresh],
        sensors=[scores_sensor(stages, refresh)],
        resources={"options": RunOptions()},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all study files and of studies that were run, for the Dagster UI."""
    prepare()
    return definitions_of(list(read_book(also=noted(home())).studies.values()))

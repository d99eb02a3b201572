"""All stages of the project in build order, and those that a stage depends on."""

from __future__ import annotations

from collections.abc import Collection

from rag_assay.assets.chunks import Chunks
from rag_assay.assets.documents import Documents
from rag_assay.assets.embeddings import Embeddings
from rag_assay.assets.engine.layout import ProjectLayout
from rag_assay.assets.engine.stage import Stage
from rag_assay.assets.enrichments import Enrichments
from rag_assay.assets.indexes import Indexes
from rag_assay.assets.pages import Pages
from rag_assay.evals.annotations import Annotations
from rag_assay.evals.answers import Answers
from rag_assay.evals.human_estimates import HumanEstimates
from rag_assay.evals.judge_cards import JudgeCards
from rag_assay.evals.judgements import Judgements
from rag_assay.evals.leaderboard import Leaderboard
from rag_assay.evals.questions import Questions
from rag_assay.evals.rankings import Rankings
from rag_assay.evals.report import Report
from rag_assay.evals.scores import Scores
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study


def up_to(study: Study, last: Collection[str]) -> dict[str, Stage]:
    stages = stages_of(Grid([study]))
    wanted = set(last)
    for name in reversed(stages):  # each stands after those that it needs
        if name in wanted:
            wanted |= set(stages[name].upstream)
    return {name: stage for name, stage in stages.items() if name in wanted}


def stages_of(grid: Grid, layout: ProjectLayout = ProjectLayout()) -> dict[str, Stage]:  # noqa: B008 -- it is frozen
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
    for stage in stages:
        stage.layout = layout
    return {stage.name: stage for stage in stages}

"""All stages of the project, in the order in which they are walked."""

from __future__ import annotations

from assets.chunks import Chunks
from assets.documents import Documents
from assets.embeddings import Embeddings
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

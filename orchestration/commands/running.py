"""`assay run`: a study brought up to date, from its sources to its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from orchestration.commands.finding import home_of, study_of
from orchestration.commands.walking import show, walk
from orchestration.terminal.speaking import DONE, FAILED, StudyArgument, plainly, say

if TYPE_CHECKING:
    from evals.study.study import Study

app = typer.Typer()


@app.command()
@plainly
def run(study: StudyArgument) -> int:
    """Bring a study up to date, write its report, show its leaderboard."""
    from evals.study.run_studies import note

    found = study_of(study)
    where = home_of(found)
    _look_ahead(found)
    note(found, where)
    report = walk(found, where)
    if not report.is_there("leaderboard"):
        return FAILED
    show(found, where, report)
    return DONE if report.ok else FAILED


def _look_ahead(study: Study) -> None:
    """Read the question files, for a typo must not cost a crawl; tell of models that cannot be asked."""
    from evals.study.checking import unreachable_models
    from evals.study.grid import read_questions_of

    read_questions_of(study)
    for reason in unreachable_models(study):
        say(f"warning: {reason}; what needs it will fail")

"""`assay questions evidence`: the evidence of ground truths, as a file for a person to look at."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from rag_assay.orchestration.commands.question_generation import (
    REVIEW,
    ForceOption,
    ReviewFileOption,
    named_from,
)
from rag_assay.orchestration.commands.study_arguments import home_of, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, example, plainly, say

app = typer.Typer()


@app.command("evidence", epilog=example("assay questions evidence study.yaml --set exam"))
@plainly
def evidence(
    study: StudyArgument,
    set_name: Annotated[
        str | None, typer.Option("--set", help="Question set; default: the only one with ground truths.")
    ] = None,
    output: ReviewFileOption = None,
    force: ForceOption = False,
) -> None:
    """Write the evidence found for ground truths as a review file, with the nearest places of the others."""
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.question_generation.evidence_review import HEADING, evidence_review
    from rag_assay.evals.question_generation.review import study_of_review, with_earlier_reviews, write_review

    found = whole_study_of(study)
    path = output or found.path.with_name(f"{found.study}-evidence{REVIEW}")
    earlier = path.exists() and not force
    if earlier:
        study_of_review(path)  # what is no review file is not replaced
    with closing(BuildContext(home_of(found))) as work:
        file = evidence_review(found, set_name, named_from(found, study, path), work)
    write_review(path, with_earlier_reviews(file, path) if earlier else file, HEADING)
    print(path)
    n_open = sum(one.review == "open" for one in file.questions)
    proposed = sum(one.review == "open" and bool(one.evidence) for one in file.questions)
    say(f"{len(file.questions)} questions; {n_open} are open, {proposed} of them with the nearest place.")
    say(f"Now read them and set each `review`; then: assay questions review {path}")

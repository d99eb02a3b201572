"""`assay questions from-chat`: what people asked in conversations, as a file for a person to look at."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rag_assay.orchestration.commands.study_arguments import home_of, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, example, plainly, say
from rag_assay.warehouse.errors import InputError

app = typer.Typer()


class Only(StrEnum):
    """Which questions are taken."""

    down = "down"
    up = "up"
    declined = "declined"
    all = "all"


@app.command("from-chat", epilog=example("assay questions from-chat demo --only down"))
@plainly
def from_chat(
    study: StudyArgument,
    only: Annotated[
        Only, typer.Option(help="Only questions with a thumb down, a thumb up, or that every cell declined.")
    ] = Only.all,
    name: Annotated[str | None, typer.Option(help="Name of the question set; default: STUDY-asked.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "--out", "-o", help="The review file to write.", dir_okay=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Drop the reviews of an existing file.")] = False,
) -> None:
    """Write the questions that users asked in chats as a review file."""
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.question_generation.chat_review import review_of
    from rag_assay.evals.question_generation.from_conversations import HEADING, questions_in
    from rag_assay.evals.question_generation.review import study_of_review, with_earlier_reviews, write_review
    from rag_assay.orchestration.commands.question_generation import REVIEW, named_from

    found = whole_study_of(study)
    where = home_of(found)
    set_name = name or f"{found.study}-asked"
    path = output or found.path.with_name(f"{set_name}{REVIEW}")
    earlier = path.exists() and not force
    if earlier:
        study_of_review(path)  # what is no review file is not replaced
    from rag_assay.warehouse.conversations import Conversations

    every = questions_in(Conversations(where).of(found.study))
    asked = [one for one in every if one.fits(only.value)]
    if not asked:
        what = (
            f"none of its {len(every)} questions is one of those" if every else "no user has asked anything"
        )
        raise InputError(f"{found.study}: {what}; people ask in the app: `assay ui {study} --page chat`")
    with closing(BuildContext(where)) as work:
        file = review_of(found, asked, set_name, named_from(found, study, path), work)
    if not file.questions and not earlier:
        raise InputError(f"the study asks all of the {len(asked)} questions already")
    write_review(path, with_earlier_reviews(file, path) if earlier else file, HEADING)
    print(path)
    times = sum(one.asked.times for one in file.questions if one.asked)
    proposed = sum(bool(one.evidence) for one in file.questions)
    say(f"{len(file.questions)} questions, asked {times} times; {proposed} have evidence proposed.")
    say(f"Now read them and set each `review`; then: assay questions review {path}")

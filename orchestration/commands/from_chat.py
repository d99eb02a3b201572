"""`assay questions from-chat` and `from-traces`: what users asked, as a file for a person to look at."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from rag_assay.orchestration.commands.question_generation import (
    REVIEW,
    ForceOption,
    ReviewFileOption,
    named_from,
)
from rag_assay.orchestration.commands.study_arguments import home_of, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, example, plainly, say
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rag_assay.evals.question_generation.from_conversations import ConversationQuestion
    from rag_assay.evals.study.study import Study

app = typer.Typer()
ANSWERS = ".answers.jsonl"


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
    output: ReviewFileOption = None,
    force: ForceOption = False,
) -> None:
    """Write the questions that users asked in chats as a review file."""
    from rag_assay.evals.question_generation.from_conversations import HEADING, questions_in
    from rag_assay.warehouse.conversations import Conversations

    found = whole_study_of(study)
    where = home_of(found)
    target = ReviewTarget(name or f"{found.study}-asked", output, force, HEADING)
    target.check(found)
    every = questions_in(Conversations(where).of(found.study))
    asked = [one for one in every if one.fits(only.value)]
    if not asked:
        what = (
            f"none of its {len(every)} questions is one of those" if every else "no user has asked anything"
        )
        raise InputError(f"{found.study}: {what}; people ask in the app: `assay ui {study} --page chat`")
    write_asked(found, asked, target, study)


@app.command(
    "from-traces",
    epilog=example("assay questions from-traces study.yaml traces.jsonl", "assay run study.yaml"),
)
@plainly
def from_traces(
    study: StudyArgument,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="OpenInference traces: OTLP as JSON or JSON lines, Phoenix as Parquet or JSON lines.",
        ),
    ],
    only: Annotated[
        Only, typer.Option(help="Only questions with a thumb down, a thumb up, or that were declined.")
    ] = Only.all,
    name: Annotated[str | None, typer.Option(help="Name of the question set; default: STUDY-traced.")] = None,
    output: ReviewFileOption = None,
    force: ForceOption = False,
) -> None:
    """Write questions of production traces as a review file, and their answers as a recorded system."""
    from rag_assay.evals.question_generation.from_traces import HEADING, read_traces
    from rag_assay.evals.systems.recorded import lines_of
    from rag_assay.warehouse.atomic_write import atomic_write

    found = whole_study_of(study)
    target = ReviewTarget(name or f"{found.study}-traced", output, force, HEADING)
    target.check(found)
    read = read_traces(files)
    asked = [one for one in read.asked if one.fits(only.value)]
    if not asked:
        what = f"none of their {len(read.asked)} questions is one of those"
        raise InputError(f"{files[0]}: {what if read.asked else 'no trace has a question as its input'}")
    path = write_asked(found, asked, target, study)
    answers = path.with_name(f"{target.set_name}{ANSWERS}")
    with atomic_write(answers) as new:
        new.write_text(lines_of(read.answers), encoding="utf-8")
    print(answers)
    if read.without_question:
        say(f"{read.without_question} traces were left out: their input is not a question.")
    say(
        f"To measure the answers of the traces: `systems: {{traced: {{recorded: {{file: {answers.name}}}}}}}`"
    )


class ReviewTarget(NamedTuple):
    """Where questions are written; path None: beside the study file."""

    set_name: str
    path: Path | None
    force: bool
    heading: str

    def path_for(self, study: Study) -> Path:
        return self.path or study.path.with_name(f"{self.set_name}{REVIEW}")

    def keeps(self, study: Study) -> bool:
        """Whether an existing file's reviews are kept."""
        return not self.force and self.path_for(study).exists()

    def check(self, study: Study) -> None:
        """Raise InputError where the path is another file, which is not replaced."""
        from rag_assay.evals.question_generation.review import study_of_review

        if self.keeps(study):
            study_of_review(self.path_for(study))


def write_asked(
    study: Study, asked: Sequence[ConversationQuestion], target: ReviewTarget, given: str
) -> Path:
    """Write questions as a review file; `given`: the study as it was named to the command."""
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.question_generation.chat_review import review_of
    from rag_assay.evals.question_generation.review import with_earlier_reviews, write_review

    path, keeps = target.path_for(study), target.keeps(study)
    with closing(BuildContext(home_of(study))) as work:
        file = review_of(study, asked, target.set_name, named_from(study, given, path), work)
    if not file.questions and not keeps:
        raise InputError(f"the study asks all of the {len(asked)} questions already")
    write_review(path, with_earlier_reviews(file, path) if keeps else file, target.heading)
    print(path)
    times = sum(one.asked.times for one in file.questions if one.asked)
    proposed = sum(bool(one.evidence) for one in file.questions)
    say(f"{len(file.questions)} questions, asked {times} times; {proposed} have evidence proposed.")
    say(f"Now read them and set each `review`; then: assay questions review {path}")
    return path

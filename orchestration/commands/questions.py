"""`assay questions`: the question sets of a study."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rag_assay.orchestration.commands import evidence_review, from_chat, question_generation
from rag_assay.orchestration.commands.study_arguments import home_of, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, example, plainly, say

app = typer.Typer(
    no_args_is_help=True,
    help="Make question sets from documents, chats or traces; review and export them.",
)
app.add_typer(question_generation.app)
app.add_typer(from_chat.app)
app.add_typer(evidence_review.app)


class QuestionFormat(StrEnum):
    """What other tools read."""

    RAGAS = "ragas"
    BEIR = "beir"
    SQUAD = "squad"


@app.command("export", epilog=example("assay questions export demo --format ragas"))
@plainly
def export(
    study: StudyArgument,
    form: Annotated[QuestionFormat, typer.Option("--format", help="Format of the tool that reads them.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write to.", file_okay=False)
    ] = None,
) -> None:
    """Export the questions of a study, with their evidence, for another tool."""
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.reporting.exports import export_questions

    found = whole_study_of(study)
    where = home_of(found)
    with closing(BuildContext(where)) as work:
        written = export_questions(
            found, form.value, output or where.reports / f"{found.study}-{form.value}", work
        )
    for path in written.paths:
        print(path)
    say(", ".join(f"{count:,} {what}" for what, count in written.counts.items()) + ".")
    for note in written.notes:
        say(note)

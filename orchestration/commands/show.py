"""Commands that look at what is there: the studies, a report, one question."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from rag_assay.orchestration.commands.study_arguments import home_to_look_at
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, plainly, say
from rag_assay.warehouse.errors import InputError

app = typer.Typer()


@app.command("list")
@plainly
def list_studies() -> None:
    """List the studies that are known, run or not: their cells, and when they were run."""
    from rag_assay.evals.study.known_studies import known_studies
    from rag_assay.orchestration.terminal.tables import show_studies

    found = known_studies(home_to_look_at())
    show_studies(found)
    slices = [part.name for one in found for part in one.slices]
    if slices:
        say(f"A slice that is needed no longer: assay forget {slices[0]}")


@app.command("open")
@plainly
def open_report(study: StudyArgument) -> None:
    """Open the report of a study in the browser; where there is none, its path is all that is printed."""
    from rag_assay.evals.study.known_studies import find_known

    where = home_to_look_at()
    found = find_known(study, where)
    path = where.report(found.study)
    if not path.is_file():
        raise InputError(f"the study {found.study} has no report yet: `assay run {study}` writes {path}")
    print(path)
    if not _in_browser(path.as_uri()):
        say("no browser was found here; open that file with one of yours")


def _in_browser(uri: str) -> bool:
    try:
        return webbrowser.open(uri)
    except (webbrowser.Error, OSError):
        return False


@app.command("show")
@plainly
def show(
    study: StudyArgument,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="A question's id.")],
) -> None:
    """Show one question: its gold, what every retriever found and lost, the answers and their scores."""
    from rag_assay.evals.reporting.question_rows import question_rows
    from rag_assay.evals.study.known_studies import find_known
    from rag_assay.orchestration.terminal.question_view import show_question

    where = home_to_look_at()
    if not where.root.is_dir():
        raise InputError(f"nothing was run in {where.root} yet; run `assay run {study}` first")
    show_question(question_rows(find_known(study, where), question, where))

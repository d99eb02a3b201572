"""Commands that look at what is there: a study file, the studies, one question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_assay.orchestration.commands.changes import HistoryFormat, Output, show_history
from rag_assay.orchestration.commands.study_arguments import files_of, files_of_broken, home_to_look_at
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, complete_study, plainly, say
from rag_assay.orchestration.unchanged import remembered
from rag_assay.warehouse.errors import InputError


@plainly
def check(study: StudyArgument) -> None:
    """Report all mistakes of a study file and the files it names; run nothing."""
    from rag_assay.evals.reporting.display import several
    from rag_assay.evals.study.run_studies import known_path
    from rag_assay.evals.study.study_check import check_study

    where, named = home_to_look_at(), set[Path]()
    with remembered(where, named):
        path = known_path(study, where)
        found = check_study(path, where)
        for warning in found.warnings:
            say(f"warning: {warning}")
        say(
            f"{path}: good. {several(len(found.study.cells()), 'cell')}, "
            f"{several(found.questions, 'question')}, {several(len(found.study.measured), 'metric')}."
        )
        named |= files_of(found.study)


@plainly
def list_studies(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY",
            help="List the results that this study had; default: list all studies.",
            autocompletion=complete_study,
        ),
    ] = None,
    format: Annotated[  # noqa: A002 -- the option's name
        HistoryFormat,
        typer.Option("--format", help="Of a study's results; html writes a page with a chart."),
    ] = HistoryFormat.TABLE,
    output: Output = None,
) -> None:
    """List the studies, or all results of one study and what changed between them."""
    from rag_assay.evals.study.run_studies import known_studies
    from rag_assay.orchestration.terminal.tables import show_studies

    if study is not None:
        show_history(study, format, output)
        return
    if output or format is not HistoryFormat.TABLE:
        raise InputError("--format and --output are for the results of one study: `assay list STUDY`")
    where, named = home_to_look_at(), set[Path]()
    with remembered(where, named):
        found = known_studies(where)
        show_studies(found)
        slices = [part.name for one in found for part in one.slices]
        if slices:
            say(f"To remove a slice: assay workspace forget {slices[0]}")
        for one in found:
            if one.path is not None:
                named |= files_of(one.study) if one.study else files_of_broken(one.path)


@plainly
def show(
    study: StudyArgument,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The id of a question.")],
) -> None:
    """Show one question: its evidence, the passages found, the answers and scores."""
    from rag_assay.evals.reporting.question_rows import question_rows
    from rag_assay.evals.study.run_studies import find_known
    from rag_assay.orchestration.terminal.question_view import show_question

    where = home_to_look_at()
    if not where.root.is_dir():
        raise InputError(f"nothing was run in {where.root} yet; run `assay run {study}` first")
    show_question(question_rows(find_known(study, where), question, where))

"""`assay`: the commands, thin over the same assets that the Dagster UI shows.

Exit codes: 0 done, 1 some cells failed, 2 wrong input, 3 a gate failed, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.orchestration.commands import (
    alerts,
    annotate,
    ask,
    changes,
    chat,
    corpus,
    export,
    import_scores,
    leaderboard,
    models,
    parts,
    questions,
    report,
    run,
    serve,
    show,
    slice_options,
    spreadsheets,
    try_command,
    usage,
)
from rag_assay.orchestration.commands.run_stages import walk
from rag_assay.orchestration.commands.slice_options import CellsOption, QuestionsOption, slice_of
from rag_assay.orchestration.commands.study_arguments import home_of, prepare_home, study_as_written, study_of
from rag_assay.orchestration.settings import Settings
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, StudyArgument, plainly, say
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class QuestionTemplate(StrEnum):
    """What `assay init` puts into the question file."""

    made = "made"
    template = "template"


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"rag-assay {version('rag-assay')}")
        raise typer.Exit(DONE)


@app.callback()
def assay(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version and exit.")
    ] = False,
) -> None:
    """Measure which chunking, embedding, retriever and model answer best on your own documents.

    Exit codes: 0 done, 1 some cells failed, 2 wrong input, 3 a gate failed, 130 stopped by Ctrl-C.
    """


@app.command()
@plainly
def init(
    target: Annotated[str, typer.Argument(help="A folder of documents, or the URL of a site's start page.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the study file.")] = Path(
        "study.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    questions: Annotated[
        QuestionTemplate, typer.Option(help="Made from the documents, or a template to fill in.")
    ] = QuestionTemplate.made,
) -> int:
    """Write a commented study file for a folder or a site, and a question file that is made from it."""
    from rag_assay.orchestration.commands.init import fill_in
    from rag_assay.orchestration.templates.study_files import write_study

    written = write_study(target, output, force=force)
    for path in written:
        print(path)
    if len(written) == 1:
        say(f"It has questions of its own; now: assay check {output}")
        return DONE
    if questions is QuestionTemplate.made and not fill_in(output, written[1]):
        return FAILED
    if questions is QuestionTemplate.template:
        say(f"Now write questions into the question file, then: assay check {output}")
    return DONE


@app.command()
@plainly
def check(study: StudyArgument) -> None:
    """Check a study file, its question files and paths: all errors at once, and nothing is run."""
    from rag_assay.evals.study.known_studies import known_path
    from rag_assay.evals.study.study_check import check_study

    where = Home(Settings().place())
    path = known_path(study, where)
    found = check_study(path, where)
    for warning in found.warnings:
        say(f"warning: {warning}")
    say(
        f"{path}: good. {len(found.study.cells())} cells, {found.questions} questions, "
        f"{len(found.study.measured)} metrics."
    )


@app.command()
@plainly
def plan(study: StudyArgument, cells: CellsOption = None, questions: QuestionsOption = None) -> None:
    """Say what a run would do: cells, chunks to embed, calls, tokens and US dollars, what is done already."""
    from rag_assay.evals.study.cost_estimate import estimates
    from rag_assay.evals.study.grid import Grid
    from rag_assay.evals.study.run_plan import plan as make_plan
    from rag_assay.evals.successive_halving.records import narrow_study
    from rag_assay.orchestration.stages import stages_of
    from rag_assay.orchestration.terminal.plan_view import show_plan

    where = prepare_home()
    found = narrow_study(slice_of(study_as_written(study), cells, questions), where)
    if found.search is not None and not found.is_narrowed and found.slice is None:
        say("This is the plan of the whole grid: what its `search` leaves out is known when it has run.")
    stages = stages_of(Grid([found]))
    planned = make_plan(found, stages, where)
    show_plan(planned, estimates(found, planned, stages, where), found.budget)


@app.command()
@plainly
def crawl(
    source: Annotated[str, typer.Argument(help="Name of a source of a study.")],
    study: Annotated[
        str | None,
        typer.Option("--study", help="The study that defines it; else every known study is searched."),
    ] = None,
) -> int:
    """Crawl one source again and clean what changed."""
    found = study_of(study) if study else _study_with(source)
    if source not in found.corpus.sources:
        from rag_assay.warehouse.suggestions import unknown

        raise InputError(unknown("source", source, found.corpus.sources, str(found.path)))
    result = walk(found, home_of(found), only=("pages", "documents"), again=True, keys=(source,))
    return DONE if result.ok else FAILED


@app.command()
@plainly
def rebuild() -> None:
    """Make the DuckDB file again from the Parquet files."""
    from rag_assay.orchestration.runs.home_lock import alone
    from rag_assay.warehouse.garbage_collection import marked
    from rag_assay.warehouse.tables import rebuild as make_again

    where = prepare_home()
    with alone(where, lambda text, _done, _of: say(text)), marked(where):
        counts = make_again(where, say=say)
    for table, count in counts.items():
        print(f"{table}: {count}")
    print(where.database)


def _study_with(source: str) -> Study:
    from rag_assay.evals.study.run_studies import recorded_studies
    from rag_assay.evals.study.study_file import read_book
    from rag_assay.warehouse.suggestions import unknown

    studies = list(read_book(also=recorded_studies(prepare_home())).studies.values())
    for study in studies:
        if source in study.corpus.sources:
            return study
    raise InputError(
        unknown("source", source, {s for study in studies for s in study.corpus.sources}, "all studies")
    )


app.add_typer(alerts.app)
app.add_typer(annotate.app)
app.add_typer(chat.app)
app.add_typer(ask.app)
app.add_typer(export.app)
app.add_typer(changes.app)
app.add_typer(import_scores.app)
app.add_typer(leaderboard.app)
app.add_typer(show.app)
app.add_typer(parts.app)
app.add_typer(report.app)
app.add_typer(run.app)
app.add_typer(serve.app)
app.add_typer(spreadsheets.app)
app.add_typer(slice_options.app)
app.add_typer(try_command.app)
app.add_typer(usage.app)
app.add_typer(corpus.app, name="corpus")
app.add_typer(models.app, name="models")
app.add_typer(questions.app, name="questions")


def main() -> None:
    """Run the command line, whatever the terminal: one without UTF-8 sees `?` for what it cannot show."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: `2>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 -- for as long as we run
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()

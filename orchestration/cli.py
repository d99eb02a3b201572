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

from orchestration.commands import (
    alerts,
    annotating,
    asking,
    changes,
    chatting,
    corpus,
    exporting,
    importing,
    leaderboard,
    looking,
    models,
    parts,
    questions,
    reporting,
    running,
    serving,
    sheets,
    slicing,
    trying,
    usage,
)
from orchestration.commands.finding import home_of, prepared_home, study_as_written, study_of
from orchestration.commands.slicing import CellsOption, QuestionsOption, slice_of
from orchestration.commands.walking import walk
from orchestration.settings import Settings
from orchestration.terminal.speaking import DONE, FAILED, StudyArgument, plainly, say
from warehouse.errors import InputError
from warehouse.paths import Home

if TYPE_CHECKING:
    from evals.study.study import Study

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Questions(StrEnum):
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
        Questions, typer.Option(help="Made from the documents, or a template to fill in.")
    ] = Questions.made,
) -> int:
    """Write a commented study file for a folder or a site, and a question file that is made from it."""
    from orchestration.commands.beginning import fill_in
    from orchestration.templates.study_files import write_study

    written = write_study(target, output, force=force)
    for path in written:
        print(path)
    if len(written) == 1:
        say(f"It has questions of its own; now: assay check {output}")
        return DONE
    if questions is Questions.made and not fill_in(output, written[1]):
        return FAILED
    if questions is Questions.template:
        say(f"Now write questions into the question file, then: assay check {output}")
    return DONE


@app.command()
@plainly
def check(study: StudyArgument) -> None:
    """Check a study file, its question files and paths: all errors at once, and nothing is run."""
    from evals.study.checking import check_study
    from evals.study.known_studies import known_path

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
    from evals.racing.records import narrowed
    from evals.study.costing import estimates
    from evals.study.grid import Grid
    from evals.study.planning import plan as make_plan
    from orchestration.stages import stages_of
    from orchestration.terminal.showing_plan import show_plan

    where = prepared_home()
    found = narrowed(slice_of(study_as_written(study), cells, questions), where)
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
        from warehouse.near_names import unknown

        raise InputError(unknown("source", source, found.corpus.sources, str(found.path)))
    result = walk(found, home_of(found), only=("pages", "documents"), again=True, keys=(source,))
    return DONE if result.ok else FAILED


@app.command()
@plainly
def rebuild() -> None:
    """Make the DuckDB file again from the Parquet files."""
    from orchestration.walking.home_lock import alone
    from warehouse.leftovers import marked
    from warehouse.tables import rebuild as make_again

    where = prepared_home()
    with alone(where, lambda text, _done, _of: say(text)), marked(where):
        counts = make_again(where, say=say)
    for table, count in counts.items():
        print(f"{table}: {count}")
    print(where.database)


def _study_with(source: str) -> Study:
    from evals.study.run_studies import noted
    from evals.study.study_file import read_book
    from warehouse.near_names import unknown

    studies = list(read_book(also=noted(prepared_home())).studies.values())
    for study in studies:
        if source in study.corpus.sources:
            return study
    raise InputError(
        unknown("source", source, {s for study in studies for s in study.corpus.sources}, "all studies")
    )


app.add_typer(alerts.app)
app.add_typer(annotating.app)
app.add_typer(chatting.app)
app.add_typer(asking.app)
app.add_typer(exporting.app)
app.add_typer(changes.app)
app.add_typer(importing.app)
app.add_typer(leaderboard.app)
app.add_typer(looking.app)
app.add_typer(parts.app)
app.add_typer(reporting.app)
app.add_typer(running.app)
app.add_typer(serving.app)
app.add_typer(sheets.app)
app.add_typer(slicing.app)
app.add_typer(trying.app)
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

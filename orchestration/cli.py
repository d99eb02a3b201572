"""`assay`: the commands, thin over the same assets that the Dagster UI shows.

Exit codes: 0 done, 1 some cells failed, 2 wrong input, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.settings import Settings, prepare
from warehouse.errors import AssayError, InputError
from warehouse.paths import Home, home

if TYPE_CHECKING:
    from evals.reporting.data import ReportData
    from evals.study import Study
    from orchestration.driver import RunReport

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
models_app = typer.Typer(
    no_args_is_help=True, help="Model weights: list them, fetch them, check them against their SHA-256."
)
app.add_typer(models_app, name="models")

DONE, FAILED, WRONG_INPUT, STOPPED = 0, 1, 2, 130
StudyArgument = Annotated[
    str, typer.Argument(metavar="STUDY", help="A study's name, or the path of a study file.")
]


class ReportFormat(StrEnum):
    """What `assay report` writes."""

    HTML = "html"
    JSON = "json"
    TREC = "trec"


def plainly(command: Callable[..., int | None]) -> Callable[..., None]:
    """Turn what a person can mend into a sentence and an exit code, never a stack trace."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            code = command(*args, **kwargs) or DONE
        except InputError as error:
            for finding in error.findings:
                say(f"error: {finding}")
            code = WRONG_INPUT
        except AssayError as error:
            say(f"error: {error}")
            code = FAILED
        except KeyboardInterrupt:
            say("stopped. What was finished is stored; the same command goes on from there.")
            code = STOPPED
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = DONE
        except OSError as error:  # a disk that is full, a folder that cannot be written to
            where = f"{error.filename}: " if error.filename else ""
            say(f"error: {where}{error.strerror or error}")
            code = FAILED
        raise typer.Exit(code)

    return run


def say(text: str) -> None:
    """Print to stderr: results alone go to standard output."""
    print(text, file=sys.stderr, flush=True)


def _home() -> Home:
    prepare(Settings())
    return home()


def _home_of(study: Study) -> Home:
    """Return the home, unless the study's names stand for another study's things there."""
    from evals.noted import refuse_taken

    where = _home()
    refuse_taken(study, where)
    return where


@app.command()
@plainly
def init(
    target: Annotated[str, typer.Argument(help="A folder of documents, or the URL of a site's start page.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the study file.")] = Path(
        "study.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write a commented study file, and a question file to fill in, for a folder or a site."""
    from orchestration.templates import write_study

    written = write_study(target, output, force=force)
    for path in written:
        print(path)
    to_fill_in = len(written) > 1
    told = (
        "Now write questions into the question file, then:"
        if to_fill_in
        else "It has questions of its own; now:"
    )
    say(f"{told} assay check {output}")


@app.command()
@plainly
def check(study: StudyArgument) -> None:
    """Check a study file, its question files and paths: all errors at once, and nothing is run."""
    from evals.checking import check_study
    from evals.study_file import study_path

    path = study_path(study)
    found = check_study(path, Home(Settings().home.expanduser().absolute()))
    for warning in found.warnings:
        say(f"warning: {warning}")
    say(
        f"{path}: good. {len(found.study.cells())} cells, {found.questions} questions, "
        f"{len(found.study.metrics)} metrics."
    )


@app.command()
@plainly
def run(study: StudyArgument) -> int:
    """Bring a study up to date, write its report, show its leaderboard."""
    from evals.noted import note

    found = _study(study)
    where = _home_of(found)
    _look_ahead(found)
    note(found, where)
    report = _walk(found, where)
    _summary(report)
    if not any(
        stage.stage == "leaderboard" and not (stage.failed or stage.left_out) for stage in report.stages
    ):
        return FAILED
    _show(found, where, report)
    return DONE if report.ok else FAILED


@app.command()
@plainly
def plan(study: StudyArgument) -> None:
    """Say what a run would do: cells, chunks to embed, model calls and tokens, and what is done already."""
    from evals.grid import Grid
    from evals.planning import plan as make_plan
    from orchestration.definitions import stages_of
    from orchestration.showing import show_plan

    found = _study(study)
    show_plan(make_plan(found, stages_of(Grid([found])), _home()))


@app.command()
@plainly
def report(
    study: StudyArgument,
    format: Annotated[  # noqa: A002 -- the option's name
        ReportFormat,
        typer.Option(
            "--format",
            help="html: the report; json: leaderboard rows to standard output; trec: a run file a ranking.",
        ),
    ] = ReportFormat.HTML,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File (html) or folder (trec) to write to.")
    ] = None,
) -> None:
    """Write the report of a study that was run, or print its leaderboard."""
    from evals.exports import json_rows, trec_runs
    from evals.report import report_data

    found = _study(study)
    where = _home_of(found)
    if format is ReportFormat.JSON:
        print(json_rows(found, where))
    elif format is ReportFormat.TREC:
        runs = trec_runs(found, where, output or where.reports / f"{found.study}-trec")
        for path in runs.written:
            print(path)
        say(f"What is relevant stands in {runs.qrels}.")
        if runs.differing:
            said = "; ".join(runs.differing[:10]) + ("; …" if len(runs.differing) > 10 else "")
            say(
                f"trec_eval counts {len(runs.differing)} questions otherwise, for which any one document "
                f"of several suffices: {said}."
            )
        if runs.missing:
            said = "; ".join(runs.missing)
            say(f"not written, for these rankings have not been run: {said}. Run `assay run {study}` first.")
    else:
        print(_write_report(report_data(found, where), output or _report_path(found, where)))


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
    found = _study(study) if study else _study_with(source)
    if source not in found.corpus.sources:
        from assets.recipes import unknown

        raise InputError(unknown("source", source, found.corpus.sources, str(found.path)))
    result = _walk(found, _home_of(found), only=("pages", "documents"), again=True, keys=(source,))
    _summary(result)
    return DONE if result.ok else FAILED


@models_app.command("list")
@plainly
def models_list() -> None:
    """List the registered models, their licence, size, and whether they are here."""
    from orchestration.showing import show_models

    show_models(_home())


@models_app.command("fetch")
@plainly
def models_fetch(name: str) -> None:
    """Fetch a model's files and check them; they are kept under `ASSAY_HOME/models`."""
    from warehouse import models

    print(models.fetch(name, _home(), say))


@models_app.command("verify")
@plainly
def models_verify(name: str) -> int:
    """Hash every file of a model again and compare."""
    from warehouse import models

    found = models.verify(name, _home())
    for item in found:
        print(f"{'ok   ' if item.found == item.expected else 'WRONG'} {item.path} {item.found or 'missing'}")
    return DONE if all(item.found == item.expected for item in found) else FAILED


@app.command()
@plainly
def rebuild() -> None:
    """Make the DuckDB file again from the Parquet files."""
    from orchestration.driver import alone
    from warehouse.leftovers import marked
    from warehouse.tables import rebuild as make_again

    where = _home()
    with alone(where, lambda text, _done, _of: say(text)), marked(where):
        counts = make_again(where, say=say)
    for table, count in counts.items():
        print(f"{table}: {count}")
    print(where.database)


def _study(name: str) -> Study:
    from evals.study_file import find_study

    return find_study(name)


def _study_with(source: str) -> Study:
    from assets.recipes import unknown
    from evals.noted import noted
    from evals.study_file import read_book

    studies = list(read_book(also=noted(_home())).studies.values())
    for study in studies:
        if source in study.corpus.sources:
            return study
    raise InputError(
        unknown("source", source, {s for study in studies for s in study.corpus.sources}, "all studies")
    )


def _look_ahead(study: Study) -> None:
    """Read the question files, for a typo must not cost a crawl; tell of models that cannot be asked."""
    from evals.checking import unreachable_models
    from evals.grid import read_questions_of

    read_questions_of(study)
    for reason in unreachable_models(study):
        say(f"warning: {reason}; its cells will have no answers")


def _walk(
    study: Study,
    where: Home,
    only: tuple[str, ...] | None = None,
    *,
    again: bool = False,
    keys: tuple[str, ...] | None = None,
) -> RunReport:
    from orchestration.driver import Driver
    from orchestration.progress import Bars

    with Bars() as bars:
        return Driver(study, where, bars.tell).run(only, again=again, keys=keys)


def _summary(result: RunReport) -> None:
    from orchestration.showing import show_run

    show_run(result)


def _write_report(data: ReportData, path: Path) -> Path:
    from evals.reporting.page import render_html
    from warehouse.parquet import replacing

    with replacing(path) as temporary:
        temporary.write_text(render_html(data), encoding="utf-8")
    return path


def _report_path(study: Study, where: Home) -> Path:
    return where.reports / f"{study.study}.html"


def _is_newer(path: Path, study: Study, where: Home) -> bool:
    """Say whether a report was written after its leaderboard was made and its study file was saved last.

    A run that was killed in between has left an older one.
    """
    from warehouse.artifacts import ArtifactStore

    made = ArtifactStore(where).pointed_at("leaderboard", study.study)
    if made is None or not path.exists():
        return False
    return path.stat().st_mtime > max(made, study.path.stat().st_mtime)


def _show(study: Study, where: Home, result: RunReport) -> None:
    from evals.report import report_data
    from orchestration.showing import failure_notes, show_leaderboard

    path = _report_path(study, where)
    nothing_new = result.ok and result.unchanged and _is_newer(path, study, where)
    data = report_data(study, where, failure_notes(result), with_hits=not nothing_new)
    if not nothing_new:
        _write_report(data, path)
    show_leaderboard(data)
    say(f"\nReport:     {path}")
    say("Dagster UI: make dev   (then open http://127.0.0.1:3000)")


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

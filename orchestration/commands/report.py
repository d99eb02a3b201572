"""`assay verdict` and `assay report`: the decision; results as a page, as rows, or as run files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from rag_assay.orchestration.commands.study_arguments import files_of, prepare_home, study_of
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, plainly, say
from rag_assay.orchestration.unchanged import remembered
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.evals.reporting.stale_results import StoredResult
    from rag_assay.evals.study.study import Study

FEW = 10  # questions that are named


@plainly
def verdict(
    study: StudyArgument,
    format: Annotated[  # noqa: A002 -- the option's name
        Literal["text", "json"], Option("--format", help="Output format; json has all figures.")
    ] = "text",
) -> None:
    """Print which pipeline to use, how sure that is, and what the data cannot tell."""
    from rag_assay.evals.reporting.stale_results import stored_result

    where, named = prepare_home(), set[Path]()
    with remembered(where, named):
        found = study_of(study)
        decided = stored_result(found, where, as_run=True).verdict
        if format == "json":
            print(json.dumps(decided.row(), ensure_ascii=False, indent=2))
        else:
            print("\n".join(decided.sentences))
        named |= files_of(found)


@plainly
def report(
    study: StudyArgument,
    format: Annotated[  # noqa: A002 -- the option's name
        Literal["html", "json", "markdown", "csv", "parquet", "trec", "tables"],
        Option(
            "--format",
            help="markdown: the first section; json, csv, parquet: leaderboard rows; tables: all rows as "
            "Parquet; trec: run files.",
        ),
    ] = "html",
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="File (trec, tables: folder) to write to; default of json, markdown, csv: standard output.",
        ),
    ] = None,
    open_browser: Annotated[bool, Option("--open", help="Open the report in the browser.")] = False,
    mlflow: Annotated[
        str | None,
        Option(
            metavar="URI",
            help="Write runs, metrics and the report to MLflow instead: http://HOST:5000, sqlite:///FILE.",
        ),
    ] = None,
) -> None:
    """Write the report of a study that was run, or export its leaderboard."""
    if mlflow is not None and (output or open_browser or format != "html"):
        raise InputError("--mlflow writes to MLflow alone; leave --format, --output and --open out")
    if open_browser and format != "html":
        raise InputError(f"--open is for the HTML report; leave --format {format} out")
    found = study_of(study)
    where = prepare_home()
    if format in {"json", "markdown", "csv", "parquet"}:
        _write_rows(found, where, format, output)
    elif format == "trec":
        _write_runs(found, where, output or where.reports / f"{found.study}-trec", study)
    elif format == "tables":
        from rag_assay.evals.reporting.exports import export_tables

        for path in export_tables(found, where, output or where.reports / f"{found.study}-tables"):
            print(path)
    else:
        path = _write_page(found, where, output)
        if mlflow is not None:
            _write_to_mlflow(found, where, path, mlflow)
            return
        print(path)
        if open_browser:
            from rag_assay.orchestration.commands.ui import in_browser

            if not in_browser(path.absolute().as_uri()):
                say("no browser was found; open this file yourself")


def _write_to_mlflow(found: Study, where: Home, page: Path, uri: str) -> None:
    from rag_assay.evals.reporting.mlflow_runs import write_to_mlflow
    from rag_assay.evals.reporting.rows import report_data

    written = write_to_mlflow(report_data(found, where, with_hits=False), page, uri)
    print(written.place)
    say(f"{written.cells} cells." if written.is_new else "This result is there already.")


def _write_rows(found: Study, where: Home, form: str, output: Path | None) -> None:
    from rag_assay.evals.reporting.exports import csv_text, export_table, write_csv
    from rag_assay.evals.reporting.markdown import render_markdown
    from rag_assay.evals.reporting.page import json_rows, other_rows
    from rag_assay.evals.reporting.rows import report_data
    from rag_assay.warehouse.atomic_write import write_file
    from rag_assay.warehouse.parquet import write_parquet

    _say_note(found, where)
    data = report_data(found, where, with_hits=False)
    if form == "parquet":
        path = output or where.reports / f"{found.study}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_parquet(export_table(data), path)
        print(path)
    elif form == "csv":
        table = export_table(data)
        print(write_csv(table, output) if output else csv_text(table), end="\n" if output else "")
    else:
        is_json = form == "json"
        text = json_rows(data.leaderboard, other_rows(data)) + "\n" if is_json else render_markdown(data)
        print(write_file(output, text) if output else text, end="\n" if output else "")


def _write_runs(found: Study, where: Home, folder: Path, name: str) -> None:
    from rag_assay.evals.reporting.exports import trec_runs

    runs = trec_runs(found, where, folder)
    for path in runs.written:
        print(path)
    say(f"What is relevant stands in {runs.qrels}.")
    if runs.differing:
        named = "; ".join(runs.differing[:FEW]) + ("; …" if len(runs.differing) > FEW else "")
        say(
            f"trec_eval counts {len(runs.differing)} questions otherwise, for which any one document "
            f"of several suffices: {named}."
        )
    if runs.missing:
        named = "; ".join(runs.missing)
        say(f"not written, for these rankings have not been run: {named}. Run `assay run {name}` first.")


def _say_note(found: Study, where: Home) -> StoredResult:
    from rag_assay.evals.reporting.stale_results import stored_result

    result = stored_result(found, where, as_run=True)
    for note in result.notes:
        say(f"Note: {note}")
    return result


def _write_page(found: Study, where: Home, output: Path | None) -> Path:
    from rag_assay.evals.reporting.page import write_html, write_report
    from rag_assay.evals.reporting.rows import report_data

    result = _say_note(found, where)  # what does not fit what was run is refused as wrong input
    if output:
        return write_html(report_data(found, where), output)
    if result.note or not result.store.are_of_now():  # no current stage would build it
        return write_report(report_data(found, where), where)[0]
    from rag_assay.assets.engine.builder import build_key
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.report import Report
    from rag_assay.evals.study.grid import Grid
    from rag_assay.warehouse.garbage_collection import marked

    with marked(where):
        outcome = build_key(Report(Grid([found])), found.study, BuildContext(where))
    if outcome.error:
        raise AssayError(outcome.error)
    return where.report(found.study)

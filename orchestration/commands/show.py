"""Commands that look at what is there: a study file, the studies, their results, documents, one question."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import files_of, files_of_broken, home_to_look_at
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, complete_study, plainly, say
from rag_assay.orchestration.unchanged import remembered
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.evals.reporting.sections import TitledPage

Output = Annotated[Path | None, Option("--output", "-o", help="Write to this file instead of the terminal.")]


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
        Argument(
            metavar="STUDY",
            help="List the results that this study had; default: list all studies.",
            autocompletion=complete_study,
        ),
    ] = None,
    format: Annotated[  # noqa: A002 -- the option's name
        Literal["table", "json", "csv", "markdown", "html"],
        Option("--format", help="Of a study's results; html writes a page with a chart."),
    ] = "table",
    output: Output = None,
) -> None:
    """List the studies, or all results of one study and what changed between them."""
    from rag_assay.evals.study.run_studies import known_studies
    from rag_assay.orchestration.terminal.tables import show_studies

    if study is not None:
        _show_history(study, format, output)
        return
    if output or format != "table":
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
    study: StudyArgument, question: Annotated[str, Argument(metavar="QUESTION", help="The id of a question.")]
) -> None:
    """Show one question: its evidence, the passages found, the answers and scores."""
    from rag_assay.evals.reporting.question_rows import question_rows
    from rag_assay.evals.study.run_studies import find_known
    from rag_assay.orchestration.terminal.question_view import show_question

    where = home_to_look_at()
    if not where.root.is_dir():
        raise InputError(f"nothing was run in {where.root} yet; run `assay run {study}` first")
    show_question(question_rows(find_known(study, where), question, where))


@plainly
def diff(
    before: Annotated[
        str,
        Argument(
            metavar="BEFORE", help="A study, or one of its results: demo@1 (one back), demo@2026-11-01."
        ),
    ],
    after: Annotated[str, Argument(metavar="AFTER", help="The result to compare it with.")],
    format: Annotated[  # noqa: A002 -- the option's name
        Literal["table", "json", "markdown", "html"],
        Option("--format", help="Output format; html writes a page beside the reports."),
    ] = "table",
    rows: Annotated[int, Option("--rows", min=1, help="Rows of each table on the terminal.")] = 20,
    output: Output = None,
) -> None:
    """Show what differs between two results: documents, answers, cells and recipes."""
    from rag_assay.evals.reporting.changes.diff import diff as compare
    from rag_assay.evals.reporting.changes.diff_page import diff_json, diff_page
    from rag_assay.evals.reporting.changes.pages import truncate_page
    from rag_assay.evals.reporting.changes.results import chosen

    where = home_to_look_at()
    name_of = _name_in(where)
    found = compare(chosen(before, where, name_of), chosen(after, where, name_of), ArtifactStore(where))
    if format == "json":
        _put(diff_json(found) + "\n", output)
        return
    page = diff_page(found)
    if format == "table":
        page = truncate_page(page, rows, "`--rows`, or --format html")
    studies = dict.fromkeys((found.before.study, found.after.study))
    _put_page(page, format, output, where.reports / f"{'-'.join(studies)}-diff.html")


@plainly
def documents(
    name: Annotated[
        str, Argument(metavar="STUDY|CORPUS", help="A study or a corpus.", autocompletion=complete_study)
    ],
    format: Annotated[  # noqa: A002 -- the option's name
        Literal["table", "json"], Option("--format", help="Output format.")
    ] = "table",
    lost: Annotated[bool, Option("--lost", help="Only documents that lost something.")] = False,
) -> None:
    """Show what each page holds, and how much of it the document keeps.

    Counted are headings, list items, definitions, table rows, code, described pictures, formulas and charts.
    Shown are also the origin of date and language, scanned pages, and pages without a document.
    """
    from rag_assay.orchestration.corpora.document_list import document_rows, show_documents

    where = home_to_look_at()
    rows = [row for row in document_rows(name, where) if not lost or row.has_losses]
    if format == "json":
        print(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False))
        return
    if not rows:
        say("No document lost anything." if lost else "There is no document.")
        return
    show_documents(rows)
    say(f"`assay ui {shlex.quote(name)} --page documents` shows each beside its page")


def _show_history(study: str, form: str, output: Path | None) -> None:
    from rag_assay.evals.reporting.changes.history import history_csv, history_json, history_page, steps
    from rag_assay.evals.reporting.changes.results import history_of

    where = home_to_look_at()
    found = steps(history_of(study, where, _name_in(where)), ArtifactStore(where))
    if form == "json":
        _put(history_json(found) + "\n", output)
    elif form == "csv":
        _put(history_csv(found), output)
    else:
        name = found[-1].entry.study
        page = history_page(name, found)
        _put_page(page, form, output, where.reports / f"{name}-history.html")


def _name_in(home: Home) -> Callable[[str], str]:
    from rag_assay.evals.study.run_studies import find_known

    return lambda written: find_known(written, home).study


def _put_page(found: TitledPage, form: str, output: Path | None, place: Path) -> None:
    from rag_assay.evals.reporting import markdown
    from rag_assay.evals.reporting import page as html
    from rag_assay.orchestration.terminal.page_view import show_page

    if form == "html":
        _put(html.render_page(found), output or place)
        print(output or place)
    elif form == "markdown":
        _put(markdown.render_page(found), output)
    else:
        show_page(found)


def _put(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
        return
    with atomic_write(output) as temporary:
        temporary.write_text(text, encoding="utf-8")

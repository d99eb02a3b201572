"""`assay diff`, and the results of one study for `assay list`: what changed."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.orchestration.commands.study_arguments import home_to_look_at
from rag_assay.orchestration.terminal.cli_errors import plainly
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.evals.reporting.sections import TitledPage


class DiffFormat(StrEnum):
    """How a comparison is written."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


class HistoryFormat(StrEnum):
    """How a history is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"


Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file instead of the terminal.")
]


def show_history(study: str, form: HistoryFormat, output: Path | None) -> None:
    """Show which results a study had, and what had changed each time."""
    from rag_assay.evals.reporting.changes.history import history_csv, history_json, history_page, steps
    from rag_assay.evals.reporting.changes.results import history_of

    where = home_to_look_at()
    found = steps(history_of(study, where, _name_in(where)), ArtifactStore(where))
    if form is HistoryFormat.JSON:
        _put(history_json(found) + "\n", output)
    elif form is HistoryFormat.CSV:
        _put(history_csv(found), output)
    else:
        name = found[-1].entry.study
        page = history_page(name, found)
        _put_page(page, form.value, output, where.reports / f"{name}-history.html")


@plainly
def diff(
    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE", help="A study, or one of its results: demo@1 (one back), demo@2026-11-01."
        ),
    ],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The result to compare it with.")],
    format: Annotated[  # noqa: A002 -- the option's name
        DiffFormat, typer.Option("--format", help="Output format; html writes a page beside the reports.")
    ] = DiffFormat.TABLE,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of each table on the terminal.")] = 20,
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
    if format is DiffFormat.JSON:
        _put(diff_json(found) + "\n", output)
        return
    page = diff_page(found)
    if format is DiffFormat.TABLE:
        page = truncate_page(page, rows, "`--rows`, or --format html")
    studies = dict.fromkeys((found.before.study, found.after.study))
    _put_page(page, format.value, output, where.reports / f"{'-'.join(studies)}-diff.html")


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

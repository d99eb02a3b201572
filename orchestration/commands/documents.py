"""`assay documents`: what each document keeps of its page."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from typing import Annotated

import typer

from rag_assay.orchestration.commands.study_arguments import home_to_look_at
from rag_assay.orchestration.terminal.cli_errors import complete_study, plainly, say


class DocumentsFormat(StrEnum):
    """How the documents are printed."""

    TABLE = "table"
    JSON = "json"


@plainly
def documents(
    name: Annotated[
        str,
        typer.Argument(
            metavar="STUDY|CORPUS",
            help="A study or a corpus.",
            autocompletion=complete_study,
        ),
    ],
    format: Annotated[  # noqa: A002 -- the option's name
        DocumentsFormat, typer.Option("--format", help="Output format.")
    ] = DocumentsFormat.TABLE,
    lost: Annotated[bool, typer.Option("--lost", help="Only documents that lost something.")] = False,
) -> None:
    """Show what each page holds, and how much of it the document keeps.

    Counted are headings, list items, definitions, table rows, code, described pictures, formulas and charts.
    Shown are also the origin of date and language, scanned pages, and pages without a document.
    """
    from rag_assay.orchestration.corpora.document_list import document_rows, show_documents

    where = home_to_look_at()
    rows = [row for row in document_rows(name, where) if not lost or row.has_losses]
    if format is DocumentsFormat.JSON:
        print(json.dumps([row.as_dict() for row in rows], indent=1, ensure_ascii=False))
        return
    if not rows:
        say("No document lost anything." if lost else "There is no document.")
        return
    show_documents(rows)
    say(f"`assay ui {shlex.quote(name)} --page documents` shows each beside its page")

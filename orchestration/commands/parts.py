"""`assay parts`: every part that a study can name."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from rag_assay.orchestration.terminal.cli_errors import plainly

app = typer.Typer()


class ListFormat(StrEnum):
    """How the list is written."""

    text = "text"
    json = "json"
    markdown = "markdown"


@app.command("parts")
@plainly
def parts(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="Only these, as in `retrievers` or `metrics`.")
    ] = None,
    form: Annotated[ListFormat, typer.Option("--format", help="text, json or markdown.")] = ListFormat.text,
) -> None:
    """List every part that a study can name, with its parameters; those of other packages too."""
    from rag_assay.evals.study.component_list import part_list
    from rag_assay.orchestration.terminal.components_view import markdown_of, show_parts

    found = part_list(kind)
    if form is ListFormat.json:
        print(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=2))
    elif form is ListFormat.markdown:
        print(markdown_of(found), end="")
    else:
        show_parts(found)

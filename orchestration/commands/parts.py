"""`assay parts`: every part that a study can name."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from orchestration.terminal.speaking import plainly

app = typer.Typer()


class Format(StrEnum):
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
    form: Annotated[Format, typer.Option("--format", help="text, json or markdown.")] = Format.text,
) -> None:
    """List every part that a study can name, with its parameters; those of other packages too."""
    from evals.study.part_list import part_list
    from orchestration.terminal.showing_parts import markdown_of, show_parts

    found = part_list(kind)
    if form is Format.json:
        print(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=2))
    elif form is Format.markdown:
        print(markdown_of(found), end="")
    else:
        show_parts(found)

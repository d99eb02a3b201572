"""`assay components` and `assay schema`: what a study file can hold."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from rag_assay.orchestration.terminal.cli_errors import plainly


@plainly
def parts(
    kind: Annotated[
        str | None,
        Argument(metavar="KIND", help="Only components of this kind, such as retrievers or metrics."),
    ] = None,
    form: Annotated[Literal["text", "json", "markdown"], Option("--format", help="Output format.")] = "text",
) -> None:
    """List the components that a study can use, with their parameters."""
    from rag_assay.evals.study.component_list import part_list
    from rag_assay.orchestration.terminal.components_view import markdown_of, show_parts

    found = part_list(kind)
    if form == "json":
        print(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=2))
    elif form == "markdown":
        print(markdown_of(found), end="")
    else:
        show_parts(found)


@plainly
def schema(
    output: Annotated[
        Path | None, Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
) -> None:
    """Write the JSON Schema of study files, by which editors complete and check them.

    `assay init` writes it into the workspace and names it in the first line of the study, which the YAML
    extensions of VS Code, Neovim and JetBrains read.
    """
    from rag_assay.evals.study.study_schema import schema_text
    from rag_assay.warehouse.atomic_write import atomic_write

    if output is None:
        print(schema_text(), end="")
        return
    with atomic_write(output) as path:
        path.write_text(schema_text(), encoding="utf-8")

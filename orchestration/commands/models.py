"""`assay models`: the registered weights."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument

from rag_assay.orchestration.commands.study_arguments import prepare_home
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, example, plainly, say

app = typer.Typer(no_args_is_help=True, help="List, fetch and verify the weights of registered models.")
NameArgument = Annotated[str, Argument(metavar="NAME", help="A name of `assay models list`.")]


@app.command("list", epilog=example("assay models list"))
@plainly
def models_list() -> None:
    """List the registered models with licence, size and whether they are on this machine."""
    from rag_assay.orchestration.terminal.tables import show_models

    show_models(prepare_home())


@app.command("fetch", epilog=example("assay models fetch all-MiniLM-L6-v2"))
@plainly
def models_fetch(name: NameArgument) -> None:
    """Download the files of a model into the workspace and verify them."""
    from rag_assay.warehouse.inference import models

    print(models.fetch(name, prepare_home(), say))


@app.command("verify", epilog=example("assay models verify all-MiniLM-L6-v2"))
@plainly
def models_verify(name: NameArgument) -> int:
    """Compare the SHA-256 of every file of a model with the registry."""
    from rag_assay.warehouse.inference import models

    found = models.verify(name, prepare_home())
    for item in found:
        print(f"{'ok   ' if item.found == item.expected else 'WRONG'} {item.path} {item.found or 'missing'}")
    return DONE if all(item.found == item.expected for item in found) else FAILED

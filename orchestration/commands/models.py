"""`assay models`: the registered weights."""

from __future__ import annotations

import typer

from rag_assay.orchestration.commands.study_arguments import prepare_home
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, plainly, say

app = typer.Typer(
    no_args_is_help=True, help="Model weights: list them, fetch them, check them against their SHA-256."
)


@app.command("list")
@plainly
def models_list() -> None:
    """List the registered models, their licence, size, and whether they are here."""
    from rag_assay.orchestration.terminal.tables import show_models

    show_models(prepare_home())


@app.command("fetch")
@plainly
def models_fetch(name: str) -> None:
    """Fetch a model's files and check them; they are kept under `ASSAY_HOME/models`."""
    from rag_assay.warehouse.inference import models

    print(models.fetch(name, prepare_home(), say))


@app.command("verify")
@plainly
def models_verify(name: str) -> int:
    """Hash every file of a model again and compare."""
    from rag_assay.warehouse.inference import models

    found = models.verify(name, prepare_home())
    for item in found:
        print(f"{'ok   ' if item.found == item.expected else 'WRONG'} {item.path} {item.found or 'missing'}")
    return DONE if all(item.found == item.expected for item in found) else FAILED

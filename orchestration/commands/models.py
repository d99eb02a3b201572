"""`assay models`: the registered weights."""

from __future__ import annotations

import typer

from orchestration.commands.finding import prepared_home
from orchestration.terminal.speaking import DONE, FAILED, plainly, say

app = typer.Typer(
    no_args_is_help=True, help="Model weights: list them, fetch them, check them against their SHA-256."
)


@app.command("list")
@plainly
def models_list() -> None:
    """List the registered models, their licence, size, and whether they are here."""
    from orchestration.terminal.showing import show_models

    show_models(prepared_home())


@app.command("fetch")
@plainly
def models_fetch(name: str) -> None:
    """Fetch a model's files and check them; they are kept under `ASSAY_HOME/models`."""
    from warehouse.inference import models

    print(models.fetch(name, prepared_home(), say))


@app.command("verify")
@plainly
def models_verify(name: str) -> int:
    """Hash every file of a model again and compare."""
    from warehouse.inference import models

    found = models.verify(name, prepared_home())
    for item in found:
        print(f"{'ok   ' if item.found == item.expected else 'WRONG'} {item.path} {item.found or 'missing'}")
    return DONE if all(item.found == item.expected for item in found) else FAILED

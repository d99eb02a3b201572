"""`assay chat`: a page on which people talk to the documents of a study, by the cells that were measured."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.orchestration.commands.page_options import (
    HostOption,
    OpenOption,
    PageOptions,
    PortOption,
    password_option,
    run_page,
    serve_page,
)
from rag_assay.orchestration.commands.study_arguments import home_of, home_to_look_at, prepare_home, study_of
from rag_assay.orchestration.terminal.cli_errors import complete_study, plainly
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study

DEMO = "demo"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]*")  # all else is a path


@plainly
def chat(  # noqa: PLR0913, PLR0917 - the options of a command
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY", help="A study that was run; default: demo.", autocompletion=complete_study
        ),
    ] = None,
    cell: Annotated[
        str | None,
        typer.Argument(metavar="CELL", help="The cell that answers first; default: the recommended one."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model that answers instead of the cell's own, unmeasured; local/NAME needs no key."
        ),
    ] = None,
    budget_usd: Annotated[
        float, typer.Option(min=0, help="US dollars that calls of paid models may cost.")
    ] = 1.0,
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    password: Annotated[bool, password_option("chat")] = False,
    open_browser: OpenOption = False,
) -> None:
    """Serve a chat page that answers from the documents of a study, until Ctrl-C."""
    name = study or _demo(home_to_look_at())
    known = None if _NAME.fullmatch(name) and not Path(name).is_file() else study_of(name)
    arguments = (known.study if known else name, name, cell or "", str(budget_usd), model or "")
    page = PageOptions("chat", arguments, host, port, password, open_browser)
    where = prepare_home()
    with serve_page(page, where) as server:
        if cell or model or not _was_run(arguments[0], where):  # else the page reads it
            found = known or study_of(name)
            home_of(found)
            if cell or model:
                _refuse_unknown(found, cell, model)
        run_page(page, server, f"the documents of {arguments[0]} can be asked here")


def _was_run(study: str, where: Home) -> bool:
    from rag_assay.warehouse.artifacts import ArtifactStore

    return study in ArtifactStore(where).keys("leaderboard")


def _refuse_unknown(study: Study, cell: str | None, model: str | None) -> None:
    from rag_assay.evals.chat.model_override import cell_for_model
    from rag_assay.orchestration.cell_selection import named_cell

    asked = named_cell(study, cell) if cell else next(one for one in study.cells())
    if model:
        cell_for_model(study, asked, model)


def _demo(where: Home) -> str:
    from rag_assay.warehouse.artifacts import ArtifactStore

    run = ArtifactStore(where).keys("leaderboard")
    if DEMO in run:
        return DEMO
    if run:
        raise InputError(
            f"say which study you want to talk to: {', '.join(run)}; as in `assay chat {run[0]}`"
        )
    raise InputError(
        f"nothing was run in {where.root} yet; run `assay run demo` first, or a study of your own"
    )

"""`assay leaderboard`: the studies of a home and their cells, live, on a page."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_assay.orchestration.commands.page_options import (
    HostOption,
    OpenOption,
    PageOptions,
    PortOption,
    run_page,
    serve_page,
    variable_of,
)
from rag_assay.orchestration.commands.study_arguments import prepare_home, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import complete_study, plainly

VARIABLE = variable_of("leaderboard")


@plainly
def leaderboard(
    studies: Annotated[
        list[str] | None,
        typer.Argument(metavar="STUDY", help="Default: all studies.", autocompletion=complete_study),
    ] = None,
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    password: Annotated[
        bool,
        typer.Option(
            "--password", help=f"Ask in this terminal for the page's password; {VARIABLE} sets it too."
        ),
    ] = False,
    open_browser: OpenOption = False,
) -> None:
    """Serve a page of the current leaderboards of all studies, until Ctrl-C."""
    where = prepare_home()
    names = tuple(dict.fromkeys(whole_study_of(one).study for one in studies or ()))
    page = PageOptions("leaderboard", names, host, port, password, open_browser)
    with serve_page(page, where) as server:
        which = f"leaderboard of {', '.join(names)}" if names else "leaderboards of all studies"
        run_page(page, server, which)

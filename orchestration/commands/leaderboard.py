"""`assay leaderboard`: a page of the current results of the studies in a workspace."""

from __future__ import annotations

from typing import Annotated

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
from rag_assay.orchestration.commands.study_arguments import prepare_home, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import complete_study, plainly


@plainly
def leaderboard(
    studies: Annotated[
        list[str] | None,
        typer.Argument(metavar="STUDY", help="Default: all studies.", autocompletion=complete_study),
    ] = None,
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    password: Annotated[bool, password_option("leaderboard")] = False,
    open_browser: OpenOption = False,
) -> None:
    """Serve a page of the current leaderboards of all studies, until Ctrl-C."""
    where = prepare_home()
    names = tuple(dict.fromkeys(whole_study_of(one).study for one in studies or ()))
    page = PageOptions("leaderboard", names, host, port, password, open_browser)
    with serve_page(page, where) as server:
        which = f"leaderboard of {', '.join(names)}" if names else "leaderboards of all studies"
        run_page(page, server, which)

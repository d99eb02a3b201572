"""`assay ui`: the app, in which a study is decided on, looked at, rated, tried and watched."""

from __future__ import annotations

import getpass
import re
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode

from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import home_of, prepare_home, study_of
from rag_assay.orchestration.settings import Settings, secret_of
from rag_assay.orchestration.terminal.cli_errors import complete_study, plainly, say
from rag_assay.orchestration.web.page_context import PERSON, STUDY, Page, UiOptions
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.web.page_process import Server

VARIABLE = "ASSAY_UI_PASSWORD"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]*")  # all else is a path


@plainly
def ui(  # noqa: PLR0913, PLR0917 - the options of a command
    study: Annotated[
        str | None,
        Argument(
            metavar="STUDY", help="Default: the study that was run last.", autocompletion=complete_study
        ),
    ] = None,
    page: Annotated[Page, Option(help="The page to open.")] = "verdict",
    name: Annotated[
        str | None, Option(metavar="NAME", help="Your name, for ratings and conversations.")
    ] = None,
    cell: Annotated[
        str | None,
        Option(metavar="CELL", help="Cell that answers first in Chat; default: the recommended one."),
    ] = None,
    model: Annotated[
        str | None,
        Option(
            help="Model that answers in Chat instead of the cell's own, unmeasured; local/NAME needs no key."
        ),
    ] = None,
    budget_usd: Annotated[float, Option(min=0, help="US dollars that calls of paid models may cost.")] = 1.0,
    time_zone: Annotated[
        str, Option(metavar="NAME", help="Time zone of days in Monitor, as in Europe/Berlin.")
    ] = "UTC",
    port: Annotated[
        int | None, Option(min=1, max=65535, help="Default: the first free port from 8501.")
    ] = None,
    host: Annotated[
        str, Option(help="Address to listen on; other than loopback, a password is needed.")
    ] = "127.0.0.1",
    password: Annotated[
        bool,
        Option("--password", help=f"Ask in this terminal for the app's password; {VARIABLE} sets it too."),
    ] = False,
    open_browser: Annotated[bool, Option("--open", help="Open the app in the browser.")] = False,
) -> None:
    """Serve the app until Ctrl-C: verdict, questions, comparison, ratings, chat and monitoring."""
    from rag_assay.warehouse.human_scores import annotator_name

    said = {STUDY: "", PERSON: annotator_name(name) if name is not None else ""}
    where = prepare_home()
    is_path = study is not None and (not _NAME.fullmatch(study) or Path(study).is_file())
    known = study_of(study) if study and is_path else None
    said[STUDY] = known.study if known else study or ""
    options = UiOptions(said[STUDY], study or "", cell or "", model or "", budget_usd, time_zone)
    with serve_app(options, host, port, _password(host, wanted=password), where) as server:
        if study and (cell or model or not is_known(said[STUDY], where)):  # else the page reads it
            found = known or study_of(study)
            home_of(found)
            if cell or model:
                _refuse_unknown(found, cell, model)
        query = urlencode({key: value for key, value in said.items() if value}, quote_via=quote)
        _run(server, f"{server.site.url}{page}" + (f"?{query}" if query else ""), opens=open_browser)


def serve_app(options: UiOptions, host: str, port: int | None, secret: str, where: Home) -> Server:
    """Start the app's server, which loads while the block makes ready what it shows."""
    require("streamlit", "the app")
    from rag_assay.orchestration.web.page_process import Server, Site, free_port

    environment = {"ASSAY_HOME": str(where.root), **({VARIABLE: secret} if secret else {})}
    return Server(Site(options.to_argument(), host, free_port(host, port), environment))


def _run(server: Server, url: str, *, opens: bool) -> None:
    server.wait_until_ready()
    say("the app is served until Ctrl-C:")
    print(url, flush=True)
    if opens and not in_browser(url):
        say("no browser was found; open this address yourself")
    server.wait()


def in_browser(url: str) -> bool:
    """Open an address in the browser; return whether there is one."""
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _password(host: str, *, wanted: bool) -> str:
    from rag_assay.orchestration.loopback import is_loopback

    secret = secret_of(Settings().ui_password)
    if wanted and not secret:
        secret = getpass.getpass("Password for the app: ").strip()
        if not secret:
            raise InputError("the password is empty")
    if not secret and not is_loopback(host):
        raise InputError(
            f"--host {host}: other machines could open the app; set {VARIABLE}, or give --password"
        )
    return secret


def is_known(name: str, where: Home) -> bool:
    """Return whether a study was run, or a corpus has that name: the page Documents shows its documents."""
    from rag_assay.orchestration.corpora.records import Corpora
    from rag_assay.warehouse.artifacts import ArtifactStore

    return name in ArtifactStore(where).keys("leaderboard") or Corpora(where).named(name) is not None


def _refuse_unknown(study: Study, cell: str | None, model: str | None) -> None:
    from rag_assay.evals.chat.model_override import cell_for_model
    from rag_assay.orchestration.cell_selection import named_cell

    asked = named_cell(study, cell) if cell else next(one for one in study.cells())
    if model:
        cell_for_model(study, asked, model)

"""`assay annotate`: a page on which people score the answers of a study."""

from __future__ import annotations

import getpass
import webbrowser
from typing import Annotated
from urllib.parse import quote

import typer

from orchestration.commands.finding import home_of, whole_study_of
from orchestration.settings import Settings
from orchestration.terminal.speaking import StudyArgument, plainly, say
from warehouse.errors import InputError

app = typer.Typer()
VARIABLE = "ASSAY_ANNOTATE_PASSWORD"


@app.command("annotate")
@plainly
def annotate(
    study: StudyArgument,
    annotator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who scores; unless said, the page asks.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Unless said, the first free one from 8501 on.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="What to listen on; another than this machine alone needs a password.")
    ] = "127.0.0.1",
    password: Annotated[
        bool, typer.Option("--password", help=f"Be asked here for a password, unless {VARIABLE} has one.")
    ] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve a page on which people score the answers of a study; Ctrl-C ends it."""
    from orchestration.web.serving import Site, free_port, served
    from warehouse.human_scores import annotator_name

    name = annotator_name(annotator) if annotator is not None else None
    secret = _password(host, wanted=password)
    found = whole_study_of(study)
    where = home_of(found)
    environment = {"ASSAY_HOME": str(where.root), **({VARIABLE: secret} if secret else {})}
    site = Site("annotate", (found.study,), host, free_port(host, port), environment)
    with served(site) as server:  # it starts while the queue is made
        from evals.queueing.preparing import prepare_queue

        queue = prepare_queue(found, where, say)
        server.wait_until_ready()
        say(f"{len(queue.items):,} answers of {found.study} can be scored here; Ctrl-C ends the page:")
        url = site.url + (f"?annotator={quote(name, safe='')}" if name else "")
        print(url, flush=True)
        if open_browser and not webbrowser.open(url):
            say("no browser was found here; open that address with one of yours")
        server.wait()


def _password(host: str, *, wanted: bool) -> str | None:
    """Return the password that the page asks for, if it asks for one.

    Raises:
        InputError: others than this machine could open the page without one.
    """
    from orchestration.web.serving import is_loopback

    kept = Settings().annotate_password
    secret = kept.get_secret_value() if kept else None
    if wanted and not secret:
        secret = getpass.getpass("Password for the page: ").strip()
        if not secret:
            raise InputError("the password is empty")
    if not secret and not is_loopback(host):
        raise InputError(
            f"--host {host}: others than this machine could open the page; set {VARIABLE}, or give --password"
        )
    return secret

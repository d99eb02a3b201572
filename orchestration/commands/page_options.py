"""What every command that serves a page does: where it listens, its password, its address, its end."""

from __future__ import annotations

import getpass
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_assay.orchestration.settings import Settings
from rag_assay.orchestration.terminal.cli_errors import say
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    from rag_assay.orchestration.web.page_process import Server

PortOption = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Default: the first free port from 8501.")
]
HostOption = Annotated[
    str, typer.Option(help="Address to listen on; other than loopback, a password is needed.")
]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


def password_option(entry: str) -> Any:
    """Return the option `--password` of a page's command."""
    how = f"Ask in this terminal for the page's password; {variable_of(entry)} sets it too."
    return typer.Option("--password", help=how)


@dataclass(frozen=True)
class PageOptions:
    """A page, and how a person wants it served.

    entry: name of its script in `orchestration/web/entry/`
    arguments: of the script
    port: None: the first free one
    wants_password: whether the terminal asks for a password, unless the environment has one
    """

    entry: str
    arguments: tuple[str, ...]
    host: str
    port: int | None
    wants_password: bool
    opens_browser: bool


def variable_of(entry: str) -> str:
    """Return the name of the variable that holds a page's password.

    >>> variable_of("annotate")
    'ASSAY_ANNOTATE_PASSWORD'
    """
    return f"ASSAY_{entry.upper()}_PASSWORD"


@contextmanager
def serve_page(page: PageOptions, where: Home) -> Iterator[Server]:
    """Start a page's server, which loads while the block makes ready what the page shows."""
    require("streamlit", "this page")
    from rag_assay.orchestration.web.page_process import Site, free_port, serve_script

    secret = _password(page)
    environment = {"ASSAY_HOME": str(where.root), **({variable_of(page.entry): secret} if secret else {})}
    site = Site(page.entry, page.arguments, page.host, free_port(page.host, page.port), environment)
    with serve_script(site) as server:
        yield server


def run_page(page: PageOptions, server: Server, sentence: str, query: str = "") -> None:
    """Say where a page is, once it can be opened, and serve it until Ctrl-C.

    sentence: what can be done there
    query: of its address, with its question mark
    """
    server.wait_until_ready()
    say(f"{sentence}; Ctrl-C ends the page:")
    url = server.site.url + query
    print(url, flush=True)
    if page.opens_browser and not in_browser(url):
        say("no browser was found here; open that address with one of yours")
    server.wait()


def in_browser(url: str) -> bool:
    """Open an address in the browser; return whether there is one."""
    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False


def _password(page: PageOptions) -> str | None:
    from rag_assay.orchestration.loopback import is_loopback

    secret = Settings().password_of(page.entry)
    if page.wants_password and not secret:
        secret = getpass.getpass("Password for the page: ").strip()
        if not secret:
            raise InputError("the password is empty")
    if not secret and not is_loopback(page.host):
        raise InputError(
            f"--host {page.host}: others than this machine could open the page; set "
            f"{variable_of(page.entry)}, or give --password"
        )
    return secret

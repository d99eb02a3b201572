"""`assay annotate`: a page on which people score the answers of a study."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

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
from rag_assay.orchestration.commands.study_arguments import home_of, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, plainly, say

app = typer.Typer()
VARIABLE = variable_of("annotate")


@app.command("annotate")
@plainly
def annotate(
    study: StudyArgument,
    annotator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who scores; unless said, the page asks.")
    ] = None,
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    password: Annotated[
        bool, typer.Option("--password", help=f"Be asked here for a password, unless {VARIABLE} has one.")
    ] = False,
    open_browser: OpenOption = False,
) -> None:
    """Serve a page on which people score the answers of a study; Ctrl-C ends it."""
    from rag_assay.warehouse.annotator_names import annotator_name

    name = annotator_name(annotator) if annotator is not None else None
    found = whole_study_of(study)
    where = home_of(found)
    page = PageOptions("annotate", (found.study,), host, port, password, open_browser)
    with serve_page(page, where) as server:  # it starts while the queue is made
        from rag_assay.evals.human.queue_update import prepare_queue

        queue = prepare_queue(found, where, say)
        sentence = f"{len(queue.items):,} answers of {found.study} can be scored here"
        run_page(page, server, sentence, f"?annotator={quote(name, safe='')}" if name else "")

"""`assay ratings annotate`: a page on which annotators rate the answers of a study."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

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
from rag_assay.orchestration.commands.study_arguments import home_of, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import StudyArgument, plainly, say


@plainly
def annotate(
    study: StudyArgument,
    annotator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the annotator; default: the page asks.")
    ] = None,
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    password: Annotated[bool, password_option("annotate")] = False,
    open_browser: OpenOption = False,
) -> None:
    """Serve a page on which annotators rate the answers of a study, until Ctrl-C."""
    from rag_assay.warehouse.human_scores import annotator_name

    name = annotator_name(annotator) if annotator is not None else None
    found = whole_study_of(study)
    where = home_of(found)
    page = PageOptions("annotate", (found.study,), host, port, password, open_browser)
    with serve_page(page, where) as server:  # it starts while the queue is made
        from rag_assay.evals.human.queue_builder import prepare_queue

        queue = prepare_queue(found, where, say)
        sentence = f"{len(queue.items):,} answers of {found.study} can be rated here"
        run_page(page, server, sentence, f"?annotator={quote(name, safe='')}" if name else "")

"""`assay serve`: a cell behind HTTP, as it was measured."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import home_of, prepare_home, study_of
from rag_assay.orchestration.terminal.cli_errors import DONE, FAILED, plainly, say
from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.orchestration.question_service.opened_cell import OpenedCell
    from rag_assay.orchestration.question_service.worker_pool import ServiceLimits
    from rag_assay.orchestration.server.guard import AccessRules
    from rag_assay.orchestration.server.server_process import ListenAddress

TOKEN = "ASSAY_SERVE_TOKEN"  # noqa: S105 -- the name of the variable


@plainly
def serve(  # noqa: PLR0913, PLR0917 - the options of a command
    what: Annotated[
        str, Argument(metavar="FOLDER|STUDY", help="A folder of `assay export`, or a study that was run.")
    ],
    cell: Annotated[
        str | None, Argument(metavar="CELL", help="Cell of a study; default: the recommended one.")
    ] = None,
    host: Annotated[
        str, Option(help=f"Address to listen on; other than loopback, {TOKEN} is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0: any free one.")] = 8600,
    check: Annotated[
        int | None,
        Option(
            min=1,
            metavar="N",
            help="Ask N questions of the study, compare the answers with the measured ones, and stop.",
        ),
    ] = None,
    budget_usd: Annotated[float, Option(min=0, help="US dollars that calls of paid models may cost.")] = 1.0,
    max_concurrent: Annotated[int, Option(min=1, max=256, help="Requests answered at a time.")] = 16,
    max_queued: Annotated[
        int, Option(min=0, help="Requests that may wait; further ones get status 429.")
    ] = 64,
    per_minute: Annotated[int | None, Option(min=1, help="Requests per minute; default: no limit.")] = None,
    timeout: Annotated[float, Option(min=1, max=3600, help="Seconds that an answer may take.")] = 120.0,
    max_body: Annotated[int, Option(min=1000, help="Bytes of a request, at most.")] = 1_000_000,
    max_question: Annotated[int, Option(min=10, help="Characters of a question, at most.")] = 8_000,
    origin: Annotated[
        list[str] | None, Option(help="Web origin whose scripts may call the server; repeatable.")
    ] = None,
    trust: Annotated[
        list[str] | None, Option(help="Model server that an export may call; repeatable.")
    ] = None,
    anyway: Annotated[
        bool, Option("--anyway", help="Serve an export although code or weights differ here.")
    ] = False,
) -> int:
    """Serve a cell over HTTP until Ctrl-C: OpenAI-compatible chat, retrieval, MCP."""
    from rag_assay.orchestration.question_service.worker_pool import ServiceLimits
    from rag_assay.orchestration.server.guard import AccessRules

    rules = AccessRules(_token(host), host, frozenset(origin or ()), max_body)
    limits = ServiceLimits(max_concurrent, per_minute, max_body, max_question, timeout, max_queued)
    return _serve(what, cell, port, check, ServingTerms(budget_usd, trust or [], anyway), limits, rules)


class ServingTerms(NamedTuple):
    """How a cell is opened: US dollars that it may spend, servers that it may ask, whatever its code."""

    usd: float
    trusted: list[str]
    anyway: bool


def _serve(
    what: str,
    cell: str | None,
    port: int,
    check: int | None,
    terms: ServingTerms,
    limits: ServiceLimits,
    rules: AccessRules,
) -> int:
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.orchestration.server.server_process import bind_port
    from rag_assay.orchestration.server.server_process import serve as run

    place = bind_port(rules.host, port)
    work = BuildContext(prepare_home() if Path(what).is_dir() else home_of(study_of(what)))
    try:
        with _open(what, cell, work, terms, check) as opened:
            say(*(f"note: {one}" for one in opened.differences))
            say(*(f"note: other library: {one}" for one in opened.libraries))
            if check is not None:
                return _checked(opened, place, check, limits, rules)
            place.listen()
            _tell(opened, place, rules.token, terms.usd)
            run(opened, place, limits, rules, say)
            say("stopped; requests under way were answered.")
    finally:
        place.socket.close()
        work.close()
    return DONE


def _open(
    what: str, cell: str | None, work: BuildContext, terms: ServingTerms, checked: int | None
) -> OpenedCell:
    from rag_assay.evals.export.revisions import measured
    from rag_assay.orchestration.cell_selection import cell_of
    from rag_assay.orchestration.question_service.opened_cell import open_cell, open_folder

    if Path(what).is_dir():
        if cell is not None:
            raise InputError(f"{what} is a folder, which holds one cell; name no other")
        return open_folder(Path(what), work, terms.usd, terms.trusted, anyway=terms.anyway, interactive=False)
    study = study_of(what)
    chosen = cell_of(study, cell, work.home)
    opened = open_cell(study, chosen, work, terms.usd, interactive=False)
    return replace(opened, expected=measured(study, chosen, work, checked)) if checked else opened


def _token(host: str) -> str | None:
    from rag_assay.orchestration.loopback import is_loopback

    token = os.environ.get(TOKEN) or None
    if token is None and not is_loopback(host):
        raise InputError(
            f"--host {host} lets other machines ask; set {TOKEN} to a long random word, which clients send "
            "as their API key"
        )
    return token


def _tell(opened: OpenedCell, place: ListenAddress, token: str | None, usd: float) -> None:
    say(f"{opened.key} at {place.url}: /v1/chat/completions, /v1/models, /retrieve, /mcp, /health")
    say(f"{opened.source}, {opened.digest[:20]}; clients need {'a' if token else 'no'} token")
    generator = opened.pipeline.generator
    if generator is not None and generator.chat and not generator.chat.is_local:
        say(f"calls of {generator.chat.model} may cost {usd:g} USD (--budget-usd); repeated ones nothing")
    print(place.url, flush=True)


def _checked(
    opened: OpenedCell, place: ListenAddress, n: int, limits: ServiceLimits, rules: AccessRules
) -> int:
    from rag_assay.orchestration.server.parity_check import check
    from rag_assay.orchestration.server.server_process import serve_in_thread

    expected = list(opened.expected)[:n]
    if not expected:
        raise InputError("the export contains no questions; export again with --questions N")
    with serve_in_thread(opened, place, limits, rules, lambda _line: None):
        found = check(place.url, opened.key, expected, rules.token)
    say(*(f"{question}: {differs}" for question, differs in found.unlike.items()))
    print(
        f"{found.same} of {found.asked} questions were answered as they were measured "
        f"(p50 {found.quantile(0.5):.0f} ms, p95 {found.quantile(0.95):.0f} ms)"
    )
    return DONE if not found.unlike else FAILED

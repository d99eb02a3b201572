"""`assay usage`: what is asked of a corpus, how it is answered, what it costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar
from urllib.parse import quote, urlencode

import typer

from orchestration.commands.finding import prepared_home, whole_study_of
from orchestration.commands.pages import (
    HostOption,
    OpenOption,
    Page,
    PortOption,
    run_page,
    served_page,
    variable_of,
)
from orchestration.terminal.speaking import complete_study, plainly, say
from warehouse.errors import InputError
from warehouse.paths import Home

if TYPE_CHECKING:
    import duckdb

    from warehouse.usage import Choices, Usage, Wanted

Found = TypeVar("Found")
app = typer.Typer()
VARIABLE = variable_of("usage")
_MANY = 2_000  # conversations that may take a while to be read for the first time


class UsageFormat(StrEnum):
    """How usage is shown."""

    PAGE = "page"
    JSON = "json"
    CSV = "csv"


@app.command("usage")
@plainly
def usage(  # noqa: PLR0913, PLR0917 - the options of a command
    study: Annotated[
        str | None,
        typer.Argument(metavar="[STUDY]", help="All, unless one is said.", autocompletion=complete_study),
    ] = None,
    format: Annotated[  # noqa: A002 -- the option's name
        UsageFormat, typer.Option("--format", help="json, csv: printed, without a browser.")
    ] = UsageFormat.PAGE,
    panel: Annotated[
        str | None, typer.Option(metavar="NAME", help="One of its tables; csv needs one.")
    ] = None,
    cell: Annotated[str | None, typer.Option(metavar="KEY", help="Of one cell alone; printed only.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DAY", help="First day, as in 2026-03-01; printed only.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="DAY", help="The last day; printed only.")] = None,
    time_zone: Annotated[
        str, typer.Option(metavar="NAME", help="By which a day begins, as in Europe/Berlin.")
    ] = "UTC",
    demo: Annotated[
        bool, typer.Option("--demo", help="Write demo conversations of the study's questions, and show them.")
    ] = False,
    forget_demo: Annotated[
        bool, typer.Option("--forget-demo", help="Remove demo conversations, and end.")
    ] = False,
    port: PortOption = None,
    host: HostOption = "127.0.0.1",
    password: Annotated[
        bool, typer.Option("--password", help=f"Be asked here for a password, unless {VARIABLE} has one.")
    ] = False,
    open_browser: OpenOption = False,
) -> None:
    """Show what is asked, how it is answered and what it costs: a page, until Ctrl-C, or printed."""
    from warehouse.usage import FIRST, LAST, Wanted

    where = prepared_home()
    name = _name_of(study, where)
    if forget_demo:
        _forget(name, where)
        return
    days = (_day(since) or FIRST, _day(until) or LAST)
    wanted = Wanted(name, cell, *days, demo, _zone(time_zone))
    if demo:
        _write_demo(name, where)
    if format is UsageFormat.PAGE:
        site = Page("usage", (wanted.time_zone,), host, port, password, open_browser)
        _serve(site, wanted, where)
    else:
        _print(wanted, where, format, panel)


def _serve(page: Page, wanted: Wanted, where: Home) -> None:
    with served_page(page, where) as server:  # it starts while DuckDB is brought up to date
        known = _known(wanted, where)
        asked = f"{known.questions:,} questions" + (
            f" and {known.demo_questions:,} of demo data" if known.demo_questions else ""
        )
        query = {"study": wanted.study} if wanted.study else {}
        query |= {"demo": "true"} if wanted.demo else {}
        run_page(page, server, f"usage: {asked}", f"?{urlencode(query, quote_via=quote)}" if query else "")


def _print(wanted: Wanted, where: Home, form: UsageFormat, panel: str | None) -> None:
    from evals.reporting.table_exports import csv_text
    from warehouse.near_names import unknown
    from warehouse.usage import PANELS

    if panel is not None and panel not in PANELS:
        raise InputError(unknown("panel", panel, PANELS, "assay usage"))
    if form is UsageFormat.CSV and panel is None:
        raise InputError(f"a CSV is one table: say which, --panel {' | '.join(PANELS)}")
    found = _found(wanted, where).panels
    if form is UsageFormat.CSV and panel is not None:
        print(csv_text(found[panel]), end="")
        return
    names = [panel] if panel else list(PANELS)
    written = {
        "study": wanted.study,
        "cell": wanted.cell,
        "demo": wanted.demo,
        "time_zone": wanted.time_zone,
        "panels": {name: found[name].to_dicts() for name in names},
    }
    print(json.dumps(written, indent=1, ensure_ascii=False, default=str))


def _found(wanted: Wanted, where: Home) -> Usage:
    """Bring DuckDB up to date with the conversations, and look."""
    from warehouse.usage import usage as look

    return _up_to_date(where, lambda connection: look(connection, wanted, None))


def _known(wanted: Wanted, where: Home) -> Choices:
    """Bring DuckDB up to date with the conversations, and count what there is: the page itself looks."""
    from warehouse.usage import choices

    return _up_to_date(where, lambda connection: choices(connection, wanted))


def _up_to_date(where: Home, look: Callable[[duckdb.DuckDBPyConnection], Found]) -> Found:
    from warehouse.conversation_tables import write_conversations
    from warehouse.conversations import Conversations
    from warehouse.tables import using

    n = len(Conversations(where).stamps())
    if n > _MANY:
        say(f"bringing DuckDB up to date with {n:,} conversations …")
    return using(where, lambda connection: (write_conversations(connection, where), look(connection))[1], say)


def _name_of(study: str | None, where: Home) -> str | None:
    """Return the name of a study that is known, or that was asked something and is known no longer."""
    from warehouse.conversations import Conversations

    if study is None or study in {of for of, _ in Conversations(where).stamps()}:
        return study
    return whole_study_of(study).study


def _write_demo(study: str | None, where: Home) -> None:
    from evals.chatting.demo_conversations import write_demo
    from evals.study.known_studies import known_studies

    run = [one.name for one in known_studies(where) if one.run_at is not None and one.path is not None]
    if study is None and len(run) != 1:
        which = f"say which: {', '.join(run)}" if run else "run one first, as in `assay run demo`"
        raise InputError(f"demo conversations are made of one study's questions and answers; {which}")
    name = study or run[0]
    answers = write_demo(whole_study_of(name), where, datetime.now(UTC))
    say(f"{answers:,} demo answers of {name} are written; `assay usage --forget-demo` removes them")


def _forget(study: str | None, where: Home) -> None:
    from evals.chatting.demo_conversations import forget_demo as forget
    from warehouse.usage import Wanted

    gone = forget(where, study)
    _found(Wanted(study), where)
    say(f"{gone:,} demo conversations are removed")


def _day(said: str | None) -> date | None:
    if said is None:
        return None
    try:
        return date.fromisoformat(said)
    except ValueError as error:
        raise InputError(f"{said[:40]!r} is no day; as in 2026-03-01") from error


def _zone(name: str) -> str:
    """Return the name of a time zone.

    Raises:
        InputError: there is none of that name.
    """
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name).key
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"there is no time zone {name[:60]!r}; as in UTC, Europe/Berlin or America/New_York"
        ) from error

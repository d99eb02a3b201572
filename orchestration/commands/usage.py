"""`assay usage`: questions to a corpus, their answers and costs."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import prepare_home, whole_study_of
from rag_assay.orchestration.terminal.cli_errors import complete_study, plainly, say
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

if TYPE_CHECKING:
    import duckdb

    from rag_assay.warehouse.usage import Usage, UsageFilter

_MANY = 2_000  # conversations that may take a while to be read for the first time


@plainly
def usage(  # noqa: PLR0913, PLR0917 - the options of a command
    study: Annotated[
        str | None, Argument(metavar="STUDY", help="Default: all studies.", autocompletion=complete_study)
    ] = None,
    format: Annotated[  # noqa: A002 -- the option's name
        Literal["json", "csv"], Option("--format", help="How usage is printed.")
    ] = "json",
    panel: Annotated[str | None, Option(metavar="NAME", help="Only this table; csv needs one.")] = None,
    cell: Annotated[str | None, Option(metavar="KEY", help="Only this cell.")] = None,
    since: Annotated[str | None, Option(metavar="DAY", help="First day, as in 2026-03-01.")] = None,
    until: Annotated[str | None, Option(metavar="DAY", help="Last day.")] = None,
    time_zone: Annotated[
        str, Option(metavar="NAME", help="Time zone of the days, as in Europe/Berlin.")
    ] = "UTC",
    demo: Annotated[bool, Option("--demo", help="Write demo conversations first.")] = False,
    forget_demo: Annotated[
        bool, Option("--forget-demo", help="Remove demo conversations, and stop.")
    ] = False,
) -> None:
    """Print what users ask, how it is answered and what it costs; the app's page Monitor shows it."""
    from rag_assay.warehouse.usage import FIRST, LAST, UsageFilter

    where = prepare_home()
    name = _name_of(study, where)
    if forget_demo:
        _forget(name, where)
        return
    days = (_day(since) or FIRST, _day(until) or LAST)
    wanted = UsageFilter(name, cell, *days, demo, _zone(time_zone))
    if demo:
        _write_demo(name, where)
    _print(wanted, where, format, panel)


def _print(wanted: UsageFilter, where: Home, form: str, panel: str | None) -> None:
    from rag_assay.evals.reporting.exports import csv_text
    from rag_assay.warehouse.suggestions import unknown
    from rag_assay.warehouse.usage import PANELS

    if panel is not None and panel not in PANELS:
        raise InputError(unknown("panel", panel, PANELS, "assay usage"))
    if form == "csv" and panel is None:
        raise InputError(f"CSV holds one table; choose it with --panel {' | '.join(PANELS)}")
    found = _found(wanted, where).panels
    if form == "csv" and panel is not None:
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


def _found(wanted: UsageFilter, where: Home) -> Usage:
    from rag_assay.warehouse.conversation_tables import write_conversations
    from rag_assay.warehouse.conversations import Conversations
    from rag_assay.warehouse.tables import use_database
    from rag_assay.warehouse.usage import usage as look

    n = len(Conversations(where).stamps())
    if n > _MANY:
        say(f"bringing DuckDB up to date with {n:,} conversations …")

    def read(connection: duckdb.DuckDBPyConnection) -> Usage:
        write_conversations(connection, where)
        return look(connection, wanted, None)

    return use_database(where, read, say)


def _name_of(study: str | None, where: Home) -> str | None:
    from rag_assay.warehouse.conversations import Conversations

    if study is None or study in {of for of, _ in Conversations(where).stamps()}:
        return study
    return whole_study_of(study).study


def _write_demo(study: str | None, where: Home) -> None:
    from rag_assay.evals.chat.demo_conversations import write_demo
    from rag_assay.evals.study.run_studies import known_studies

    run = [one.name for one in known_studies(where) if one.run_at is not None and one.path is not None]
    if study is None and len(run) != 1:
        which = f"say which: {', '.join(run)}" if run else "run one first, as in `assay run demo`"
        raise InputError(f"demo conversations are made of one study's questions and answers; {which}")
    name = study or run[0]
    answers = write_demo(whole_study_of(name), where, datetime.now(UTC))
    say(f"{answers:,} demo answers of {name} are written; `assay usage --forget-demo` removes them")


def _forget(study: str | None, where: Home) -> None:
    from rag_assay.evals.chat.demo_conversations import forget_demo as forget
    from rag_assay.warehouse.usage import UsageFilter

    gone = forget(where, study)
    _found(UsageFilter(study), where)
    say(f"{gone:,} demo conversations are removed")


def _day(said: str | None) -> date | None:
    if said is None:
        return None
    try:
        return date.fromisoformat(said)
    except ValueError as error:
        raise InputError(f"{said[:40]!r} is not a date; write it as in 2026-03-01") from error


def _zone(name: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name).key
    except (OSError, ValueError, KeyError) as error:
        examples = "UTC, Europe/Berlin or America/New_York"
        raise InputError(f"unknown time zone {name[:60]!r}; examples: {examples}") from error

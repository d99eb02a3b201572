"""Usage of a corpus: the panels of the page Monitor and of `assay usage`, which `usage.sql` defines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    import duckdb

UTC = "UTC"
FIRST, LAST = date(1970, 1, 1), date(9999, 12, 31)
MOST = 500  # rows of a list that a page shows; a file has all of them


@dataclass(frozen=True)
class UsageFilter:
    """Which rows are counted; days are included and begin by the time zone; ``demo`` replaces real use."""

    study: str | None = None
    cell: str | None = None
    since: date = FIRST
    until: date = LAST
    demo: bool = False
    time_zone: str = UTC


class Panel(NamedTuple):
    """A table of the page: its query, and whether its rows are single questions or documents (`is_list`)."""

    sql: str
    is_list: bool

    @property
    def view(self) -> str:
        return re.findall(r"FROM (usage_\w+)", self.sql)[0]


_WHOSE = "($study IS NULL OR study = $study) AND day BETWEEN $since AND $until"
_CHOSEN = f"{_WHOSE} AND ($cell IS NULL OR cell = $cell) AND is_demo = $demo"


def _panels() -> dict[str, Panel]:
    text = (files("rag_assay.warehouse") / "usage.sql").read_text("utf-8")
    parts = re.findall(r"^-- panel (\w+)( list)?\n(.+?)(?=\n+-- panel|\s*\Z)", text, re.MULTILINE | re.DOTALL)
    return {
        name: Panel(sql.replace("<chosen>", _CHOSEN).replace("<whose>", _WHOSE), bool(is_list))
        for name, is_list, sql in parts
    }


PANELS: Mapping[str, Panel] = _panels()


@dataclass(frozen=True)
class UsageChoices:
    """What can be filtered by: (study, cell) of those that answered, the days and numbers of questions."""

    studies: tuple[str, ...] = ()
    cells: tuple[tuple[str, str], ...] = ()
    first: date | None = None
    last: date | None = None
    questions: int = 0
    demo_questions: int = 0


@dataclass(frozen=True)
class Usage:
    """The panels of one look, by name."""

    wanted: UsageFilter
    choices: UsageChoices
    panels: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def in_time_zone(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    import duckdb

    try:
        connection.execute("SET TimeZone = ?", [name])
    except duckdb.Error as error:
        raise InputError(
            f"unknown time zone {name[:60]!r}; examples: UTC, Europe/Berlin or America/New_York"
        ) from error


def panel(
    connection: duckdb.DuckDBPyConnection, name: str, wanted: UsageFilter, most: int | None = None
) -> pl.DataFrame:
    one = PANELS[name]
    sql = one.sql + (f" LIMIT {most:d}" if most is not None and one.is_list else "")
    used = set(re.findall(r"\$(\w+)", sql))
    in_time_zone(connection, wanted.time_zone)
    parameters = {name: value for name, value in asdict(wanted).items() if name in used}
    found = connection.sql(sql, params=parameters)
    rows = pl.DataFrame(found.to_arrow_table())
    times = [column for column, kind in rows.schema.items() if isinstance(kind, pl.Datetime)]
    return rows.with_columns(pl.col(column).dt.convert_time_zone(wanted.time_zone) for column in times)


def choices(connection: duckdb.DuckDBPyConnection, wanted: UsageFilter) -> UsageChoices:
    in_time_zone(connection, wanted.time_zone)
    asked = connection.execute(
        "SELECT study, cell, min(day), max(day), is_demo FROM usage_questions "
        "GROUP BY study, cell, is_demo ORDER BY study, cell"
    ).fetchall()
    counts = dict(
        connection.execute(
            "SELECT is_demo, count(DISTINCT question_key) FROM usage_questions GROUP BY is_demo"
        ).fetchall()
    )
    others = connection.execute(
        "SELECT study FROM usage_leaders UNION SELECT study FROM usage_models WHERE study IS NOT NULL"
    ).fetchall()
    studies = {study for study, *_ in (*asked, *others)}
    mine = [row for row in asked if row[4] == wanted.demo]
    return UsageChoices(
        tuple(sorted(studies)),
        tuple((study, cell) for study, cell, *_ in mine if cell is not None),
        min((row[2] for row in mine), default=None),
        max((row[3] for row in mine), default=None),
        counts.get(False, 0),
        counts.get(True, 0),
    )


def usage(
    connection: duckdb.DuckDBPyConnection,
    wanted: UsageFilter,
    most: int | None = MOST,
    known: UsageChoices | None = None,
) -> Usage:
    found = {name: panel(connection, name, wanted, most) for name in PANELS}
    return Usage(wanted, known or choices(connection, wanted), found)

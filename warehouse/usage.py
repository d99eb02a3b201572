"""Usage of a corpus: the panels of the page Monitor and of `assay usage`, each a query on a view of
`migrations/m022_usage.sql`. `PANELS` alone defines what is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

import polars as pl

from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    import duckdb

UTC = "UTC"
FIRST, LAST = date(1970, 1, 1), date(9999, 12, 31)
MOST = 500  # rows of a list that a page shows; a file has all of them


@dataclass(frozen=True)
class UsageFilter:
    """Which rows are counted.

    study, cell: None: all
    since, until: days, both included
    demo: demo data in place of real use
    time_zone: by which a day begins, as in Europe/Berlin
    """

    study: str | None = None
    cell: str | None = None
    since: date = FIRST
    until: date = LAST
    demo: bool = False
    time_zone: str = UTC


@dataclass(frozen=True)
class Panel:
    """A table of the page.

    view: that it reads
    title, about: what it shows, in a line and in a sentence
    written: its query, where `<chosen>` stands for the filters, and `<whose>` for those of study and days
    is_list: its rows are single questions or documents, of which a page shows the first
    """

    view: str
    title: str
    about: str
    written: str
    is_list: bool = False

    @property
    def sql(self) -> str:
        return self.written.replace("<chosen>", _CHOSEN).replace("<whose>", _WHOSE).strip()


_WHOSE = "($study IS NULL OR study = $study) AND day BETWEEN $since AND $until"
_CHOSEN = f"{_WHOSE} AND ($cell IS NULL OR cell = $cell) AND is_demo = $demo"

PANELS: Mapping[str, Panel] = {
    "totals": Panel(
        "usage_questions",
        "In all",
        "How many questions were asked, and how they ended.",
        """
SELECT count(DISTINCT question_key) AS questions, count(*) AS answers,
       count(*) FILTER (outcome = 'answered') AS answered, count(*) FILTER (outcome = 'declined') AS declined,
       count(*) FILTER (outcome = 'failed') AS failed,
       count(DISTINCT (study, conversation_id)) AS conversations, count(DISTINCT person) AS people,
       count(DISTINCT (study, conversation_id)) FILTER (person IS NULL) AS nameless
FROM usage_questions WHERE <chosen>""",
    ),
    "questions": Panel(
        "usage_questions",
        "Questions a day",
        "Answers by how they ended. A question that two cells answered side by side has two answers.",
        """
SELECT day, count(DISTINCT question_key) AS questions, count(*) FILTER (outcome = 'answered') AS answered,
       count(*) FILTER (outcome = 'declined') AS declined, count(*) FILTER (outcome = 'failed') AS failed
FROM usage_questions WHERE <chosen> GROUP BY day ORDER BY day""",
    ),
    "feedback": Panel(
        "usage_feedback",
        "Feedback",
        "The share of thumbs up among all thumbs, with Wilson's 95 % interval.",
        """
SELECT study, cell, up, rated - up AS down, up / nullif(rated, 0) AS share, wilson_low(up, rated) AS low,
       wilson_high(up, rated) AS high, sentences
FROM (
    SELECT study, cell, count(*) FILTER (thumbs = 1) AS up, count(*) FILTER (thumbs <> 0) AS rated,
           count("comment") AS sentences
    FROM usage_feedback WHERE <chosen> GROUP BY GROUPING SETS ((), (study, cell))
) ORDER BY cell NULLS FIRST, study""",
    ),
    "sentences": Panel(
        "usage_feedback",
        "What people wrote",
        "The sentences that came with a thumb, or by themselves, the latest first.",
        """
SELECT "at", study, cell, CASE thumbs WHEN 1 THEN 'up' WHEN -1 THEN 'down' END AS thumb, "comment", question
FROM usage_feedback WHERE "comment" IS NOT NULL AND <chosen> ORDER BY "at" DESC, turn_id""",
        is_list=True,
    ),
    "votes": Panel(
        "usage_votes",
        "Votes between two cells",
        "Which of two answers side by side people found better, not knowing whose they were: the cell's "
        "share of the votes that preferred one, with Wilson's 95 % interval. Ties are counted apart.",
        """
SELECT study, cell, rival, won, lost, ties, won / nullif(won + lost, 0) AS share,
       wilson_low(won, won + lost) AS low, wilson_high(won, won + lost) AS high
FROM (
    SELECT study, cell, rival, count(*) FILTER (outcome = 'won') AS won,
           count(*) FILTER (outcome = 'lost') AS lost, count(*) FILTER (outcome = 'tie') AS ties
    FROM usage_votes WHERE ($cell IS NOT NULL OR cell < rival) AND <chosen> GROUP BY study, cell, rival
) ORDER BY won + lost + ties DESC, study, cell, rival""",
    ),
    "latency": Panel(
        "usage_latency",
        "Latency by stage",
        "Seconds of searching, of answering, and as a person waited: half of the answers took less than p50, "
        "all but a twentieth less than p95. What failed has no seconds, and is not counted as fast.",
        """
SELECT stage, count(*) AS n, quantile_cont(seconds, 0.5) AS p50, quantile_cont(seconds, 0.95) AS p95,
       max(seconds) AS longest
FROM usage_latency WHERE <chosen> GROUP BY stage
ORDER BY list_position(['search', 'answer', 'whole'], stage)""",
    ),
    "latency_days": Panel(
        "usage_latency",
        "Latency a day",
        "The median and the 95th percentile of the seconds that a person waited.",
        """
SELECT day, count(*) AS n, quantile_cont(seconds, 0.5) AS p50, quantile_cont(seconds, 0.95) AS p95
FROM usage_latency WHERE stage = 'whole' AND <chosen> GROUP BY day ORDER BY day""",
    ),
    "models": Panel(
        "usage_models",
        "Models: tokens and money",
        "What was asked of models by conversations (chat) and by runs of studies (study), and what was "
        "paid. What the cache had costs nothing again. Unpriced are the calls whose price is not "
        "known: they are in no sum.",
        """
SELECT used_by, purpose, model, count(*) AS calls, count(*) FILTER (cached) AS cached,
       sum(prompt_tokens)::BIGINT AS prompt_tokens, sum(completion_tokens)::BIGINT AS completion_tokens,
       sum(usd) AS usd, count(*) FILTER (usd IS NULL) AS unpriced
FROM usage_models WHERE <chosen> GROUP BY used_by, purpose, model
ORDER BY used_by, usd DESC NULLS LAST, calls DESC, model, purpose""",
    ),
    "scores": Panel(
        "usage_scores",
        "Retrieval scores",
        "The median of the first passage's score and of the confidence, a day and cell. Each retriever has a "
        "scale of its own: a line tells of its cell's days, never of two cells.",
        """
SELECT day, study, cell, count(*) AS n, median(top_score) AS top_score, median(confidence) AS confidence
FROM usage_scores WHERE cell IS NOT NULL AND <chosen> GROUP BY day, study, cell ORDER BY day, study, cell""",
    ),
    "leaders": Panel(
        "usage_leaders",
        "The leader of the study",
        "Which cell led when, with its interval: what the grid measured, not what was asked here. It is not "
        "filtered by cell.",
        """
SELECT study, since, "number", metric, cell AS leader, "value", low, high,
       greatest(tied - 1 - within_the_margin, 0) AS tied, within_the_margin, cells, questions
FROM usage_leaders JOIN (
  SELECT study, "number", len(list_filter(
    json_extract_string(details, '$.standing[*].within_margin'), lambda one: one = 'true'
  )) AS within_the_margin FROM history
) USING (study, "number") WHERE <whose> ORDER BY study, "number" """,
    ),
    "documents": Panel(
        "usage_documents",
        "Most used documents",
        "In how many answers a document was cited, and among how many answers' passages it was.",
        """
SELECT study, doc_id, arg_max(title, "at") AS title, arg_max(url, "at") AS url,
       count(*) FILTER (cited) AS cited, count(*) AS shown
FROM usage_documents WHERE <chosen> GROUP BY study, doc_id
ORDER BY cited DESC, shown DESC, study, doc_id""",
        is_list=True,
    ),
    "unanswered": Panel(
        "usage_unanswered",
        "Questions without an answer",
        "What was declined, found no passage, failed, or was given a thumb down, the latest first.",
        """
SELECT "at", study, cell, why, declined_by, question, reason, "comment", conversation_id
FROM usage_unanswered WHERE <chosen> ORDER BY "at" DESC, turn_id""",
        is_list=True,
    ),
    "hours": Panel(
        "usage_questions",
        "Busiest hours",
        "Questions by weekday (1: Monday) and hour.",
        """
SELECT weekday, hour, count(DISTINCT question_key) AS questions
FROM usage_questions WHERE <chosen> GROUP BY weekday, hour ORDER BY weekday, hour""",
    ),
    "people": Panel(
        "usage_questions",
        "People and conversations",
        "Who asked, as they called themselves; conversations of people without a name are one row.",
        """
SELECT person, count(DISTINCT (study, conversation_id)) AS conversations,
       count(DISTINCT question_key) AS questions, min("at") AS first, max("at") AS last
FROM usage_questions WHERE <chosen> GROUP BY person ORDER BY questions DESC, person""",
        is_list=True,
    ),
}


@dataclass(frozen=True)
class UsageChoices:
    """What can be filtered by.

    studies: that were asked something, or have a history
    cells: (study, cell) of those that answered
    first, last: days on which people asked; None: no questions yet
    questions, demo_questions: that people asked, and that demo data has
    """

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
    values = {"study": wanted.study, "cell": wanted.cell, "since": wanted.since, "until": wanted.until}
    values |= {"demo": wanted.demo}  # type: ignore[dict-item]
    sql = one.sql + (f" LIMIT {most:d}" if most is not None and one.is_list else "")
    used = set(re.findall(r"\$(\w+)", sql))
    in_time_zone(connection, wanted.time_zone)
    found = connection.sql(sql, params={key: value for key, value in values.items() if key in used})
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
    studies = {study for study, *_ in asked}
    studies |= {
        study
        for (study,) in connection.execute(
            "SELECT DISTINCT study FROM usage_leaders UNION SELECT DISTINCT study FROM usage_models "
            "WHERE study IS NOT NULL"
        ).fetchall()
    }
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

"""What the page of usage says in words: how answers ended, what was paid, how fast it was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import polars as pl

from rag_assay.evals.reporting.display import MISSING, count, number, percent, several

Row = Mapping[str, Any]
ALL_STUDIES, ALL_CELLS = "All studies", "All cells"
RANGES: Mapping[str, int | None] = {"7 days": 7, "30 days": 30, "90 days": 90, "All": None}
"""What the page calls a range of days -> how many, today included; None: all."""


def days_of(name: str, today: date, first: date) -> tuple[date, date]:
    """Return the first and the last day of a range.

    >>> days_of("7 days", date(2026, 3, 10), date(2020, 1, 1))
    (datetime.date(2026, 3, 4), datetime.date(2026, 3, 10))
    """
    n = RANGES[name]
    return (first if n is None else today - timedelta(days=n - 1), today)


def money(usd: float | None, unpriced: int, calls: int) -> str:
    """Say what was paid; what is not known is said, and never 0.

    >>> money(1.5, 0, 9), money(0.0, 0, 9), money(None, 9, 9), money(0.25, 2, 9), money(None, 0, 0)
    ('US$ 1.50', 'US$ 0', 'not known', 'US$ 0.25 and 2 calls of unknown price', '–')
    """
    if not calls:
        return MISSING
    if usd is None:
        return "not known"
    written = "0" if usd == 0 else f"{usd:,.2f}" if usd >= 1 else f"{usd:.2g}"
    more = f" and {several(unpriced, 'call')} of unknown price" if unpriced else ""
    return f"US$ {written}{more}"


def share_words(row: Row) -> str:
    """Say a share of thumbs up with its interval.

    >>> share_words({"up": 3, "down": 1, "share": 0.75, "low": 0.3, "high": 0.95})
    '75 % (30 % to 95 %) of 4 thumbs'
    >>> share_words({"up": 0, "down": 0, "share": None, "low": None, "high": None})
    'no thumb yet'
    """
    n = row["up"] + row["down"]
    if row["share"] is None:
        return "no thumb yet"
    return (
        f"{percent(row['share'])} ({percent(row['low'])} to {percent(row['high'])}) of {several(n, 'thumb')}"
    )


def votes_words(row: Row) -> str:
    """Say how votes between two cells went.

    >>> votes_words({"cell": "s.a", "rival": "s.b", "won": 3, "lost": 1, "ties": 1, "share": 0.75, "low": 0.3,
    ...     "high": 0.95})
    's.a and s.b, 5 votes: the first was preferred 3 times, the second 1, alike 1; 75 % (30 % to 95 %).'
    """
    n = row["won"] + row["lost"] + row["ties"]
    share = (
        f"; {percent(row['share'])} ({percent(row['low'])} to {percent(row['high'])})"
        if row["share"] is not None
        else ""
    )
    return (
        f"{row['cell']} and {row['rival']}, {several(n, 'vote')}: the first was preferred "
        f"{several(row['won'], 'time')}, the second {count(row['lost'])}, alike {count(row['ties'])}{share}."
    )


def totals_words(row: Row) -> str:
    """Say in a sentence what was asked.

    >>> totals_words({"questions": 2, "answers": 3, "answered": 2, "declined": 1, "failed": 0, "people": 1,
    ...     "conversations": 2, "nameless": 1})
    '2 questions in 2 conversations: 2 answers, 1 declined, 0 failed. 1 person; 1 nameless conversation.'
    """
    people = f"{count(row['people'])} {'person' if row['people'] == 1 else 'people'}"
    nameless = f"; {several(row['nameless'], 'nameless conversation')}" if row["nameless"] else ""
    return (
        f"{several(row['questions'], 'question')} in {several(row['conversations'], 'conversation')}: "
        f"{several(row['answered'], 'answer')}, {count(row['declined'])} declined, "
        f"{count(row['failed'])} failed. {people}{nameless}."
    )


def latency_words(rows: pl.DataFrame) -> str:
    """Say how fast each stage was.

    >>> latency_words(pl.DataFrame({"stage": ["whole"], "n": [9], "p50": [0.5], "p95": [2.0]}))
    'whole: 0.500 s, p95 2.000 s (9).'
    """
    words = [
        f"{one['stage']}: {number(one['p50'], 's')} s, p95 {number(one['p95'], 's')} s ({count(one['n'])})"
        for one in rows.iter_rows(named=True)
    ]
    return f"{'; '.join(words)}." if words else "No answer has seconds."


def paid(rows: pl.DataFrame, used_by: str) -> str:
    """Say what conversations, or runs, have paid.

    >>> rows = pl.DataFrame(
    ...     {"used_by": ["chat", "chat"], "usd": [0.5, None], "unpriced": [0, 2], "calls": [4, 2]}
    ... )
    >>> paid(rows, "chat"), paid(rows, "study")
    ('US$ 0.5 and 2 calls of unknown price', '–')
    """
    mine = rows.filter(pl.col("used_by") == used_by)
    known = mine["usd"].drop_nulls()
    return money(
        float(known.sum()) if len(known) else None, int(mine["unpriced"].sum()), int(mine["calls"].sum())
    )

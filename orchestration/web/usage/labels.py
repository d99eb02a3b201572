"""What the view Usage says in words: how answers ended, what was paid, how fast it was."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import polars as pl

from rag_assay.evals.reporting.display import MISSING, count, number, percent
from rag_assay.orchestration.web.languages import Words, app_texts, several, words_in

Row = Mapping[str, Any]
TEXTS = app_texts("usage")
ENGLISH = words_in(TEXTS, "en")
RANGES: Mapping[str, int | None] = {"7 days": 7, "30 days": 30, "90 days": 90, "All": None}
"""What the address calls a range of days -> how many, today included; None: all."""


def days_of(name: str, today: date, first: date) -> tuple[date, date]:
    """Return the first and the last day of a range.

    >>> days_of("7 days", date(2026, 3, 10), date(2020, 1, 1))
    (datetime.date(2026, 3, 4), datetime.date(2026, 3, 10))
    """
    n = RANGES[name]
    return (first if n is None else today - timedelta(days=n - 1), today)


def money(words: Words, usd: float | None, unpriced: int, calls: int) -> str:
    """Say what was paid; what is not known is said, and never 0.

    >>> money(ENGLISH, 1.5, 0, 9), money(ENGLISH, 0.0, 0, 9), money(ENGLISH, None, 9, 9)
    ('US$ 1.50', 'US$ 0', 'not known')
    >>> money(ENGLISH, 0.25, 2, 9), money(ENGLISH, None, 0, 0)
    ('US$ 0.25 and 2 calls of unknown price', '–')
    """
    if not calls:
        return MISSING
    if usd is None:
        return words("not_known")
    written = "0" if usd == 0 else f"{usd:,.2f}" if usd >= 1 else f"{usd:.2g}"
    return f"US$ {written}" + (several(words, "unpriced", unpriced) if unpriced else "")


def share_words(words: Words, row: Row) -> str:
    """Say a share of thumbs up with its interval.

    >>> share_words(ENGLISH, {"up": 3, "down": 1, "share": 0.75, "low": 0.3, "high": 0.95})
    '75 % (30 % to 95 %) of 4 thumbs'
    """
    if row["share"] is None:
        return words("no_thumb")
    return several(words, "share", row["up"] + row["down"], **_interval(row))


def _interval(row: Row) -> dict[str, str]:
    return {name: percent(row[name]) for name in ("share", "low", "high")}


def votes_words(words: Words, row: Row) -> str:
    """Say how votes between two cells went.

    >>> votes_words(ENGLISH, {"cell": "s.a", "rival": "s.b", "won": 3, "lost": 1, "ties": 1, "share": 0.75,
    ...     "low": 0.3, "high": 0.95})
    's.a and s.b, 5 votes: 3 for the first, 1 for the second, 1 ties; 75 % (30 % to 95 %).'
    """
    counts = {name: count(row[name]) for name in ("won", "lost", "ties")}
    n = row["won"] + row["lost"] + row["ties"]
    share = words("votes_share", **_interval(row)) if row["share"] is not None else ""
    return several(words, "votes", n, cell=row["cell"], rival=row["rival"], share=share, **counts)


def totals_words(words: Words, row: Row) -> str:
    """Say in a sentence what was asked.

    >>> totals_words(ENGLISH, {"questions": 2, "answers": 3, "answered": 2, "declined": 1, "failed": 0,
    ...     "people": 1, "conversations": 2, "nameless": 1})
    '2 questions in 2 conversations: 2 answers, 1 declined, 0 failed. 1 person; 1 nameless conversation.'
    """
    return words(
        "totals",
        questions=several(words, "n_questions", row["questions"]),
        conversations=several(words, "n_conversations", row["conversations"]),
        answered=several(words, "n_answers", row["answered"]),
        declined=count(row["declined"]),
        failed=count(row["failed"]),
        people=several(words, "n_people", row["people"]),
        nameless=several(words, "n_nameless", row["nameless"]) if row["nameless"] else "",
    )


def latency_words(words: Words, rows: pl.DataFrame) -> str:
    """Say how fast each stage was.

    >>> latency_words(ENGLISH, pl.DataFrame({"stage": ["whole"], "n": [9], "p50": [0.5], "p95": [2.0]}))
    'whole: 0.500 s, p95 2.000 s (9).'
    """
    said = [
        words(
            "stage_seconds",
            stage=words(f"stage_{one['stage']}"),
            p50=number(one["p50"], "s"),
            p95=number(one["p95"], "s"),
            n=count(one["n"]),
        )
        for one in rows.iter_rows(named=True)
    ]
    return f"{'; '.join(said)}." if said else words("no_seconds")


def paid(words: Words, rows: pl.DataFrame, used_by: str) -> str:
    """Say what conversations, or runs, have paid.

    >>> rows = pl.DataFrame(
    ...     {"used_by": ["chat", "chat"], "usd": [0.5, None], "unpriced": [0, 2], "calls": [4, 2]}
    ... )
    >>> paid(ENGLISH, rows, "chat"), paid(ENGLISH, rows, "study")
    ('US$ 0.5 and 2 calls of unknown price', '–')
    """
    mine = rows.filter(pl.col("used_by") == used_by)
    known = mine["usd"].drop_nulls()
    usd = float(known.sum()) if len(known) else None
    return money(words, usd, int(mine["unpriced"].sum()), int(mine["calls"].sum()))

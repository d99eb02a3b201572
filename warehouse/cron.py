"""Cron expressions: when a schedule is due next."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

from cronsim import CronSim, CronSimError

_SPECIAL = re.compile(r"#|\bL\b|\bLW\b|\d+L", re.I)  # last and n-th days: schedulers do not agree on them
_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def is_cron(text: str) -> bool:
    """Return whether ``text`` is a cron expression of five fields that some day fulfils.

    >>> [is_cron(text) for text in ("0 5 * * 1", "*/15 8-18 * * mon-fri", "0 0 1,15 JAN *")]
    [True, True, True]
    >>> [is_cron(text) for text in ("every monday", "61 5 * * 1", "0 5 * *", "0 0 30 2 *")]
    [False, False, False, False]
    """
    fields = text.split()
    if len(fields) != 5 or _SPECIAL.search(text):
        return False
    try:
        CronSim(text, _SOME_DAY)
        CronSim(" ".join([*fields[:4], "*"]), _SOME_DAY)
    except CronSimError:
        return False
    return True


def check_cron(text: str) -> str:
    if not is_cron(text):
        hint = "a schedule is a cron expression: minute, hour, day, month and day of the week, as in"
        raise ValueError(f"{hint} '0 5 * * 1' for Mondays at 5, not {text!r}")
    return text


def longest_gap(text: str) -> timedelta:
    """Return the longest time between two times that a cron expression names, of the next thousand.

    >>> str(longest_gap("0 5 * * 1"))
    '7 days, 0:00:00'
    >>> str(longest_gap("0 8,18 * * mon-fri"))
    '2 days, 14:00:00'
    """
    times = islice(CronSim(text, _SOME_DAY), 1_000)
    return max(after - before for before, after in pairwise(times))

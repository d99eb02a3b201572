"""Cron expressions: when a schedule is due next."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

_SPECIAL = re.compile(r"#|\bL\b|\bLW\b|\d+L", re.I)  # last and n-th days: schedulers do not agree on them
_SOME_DAY = datetime(2024, 1, 1, tzinfo=UTC)


def is_cron(text: str) -> bool:
    """Return whether ``text`` is a cron expression of five fields that some day fulfils.

    A field is `*`, numbers or English names of months and days, ranges of them, lists of these, each with
    a step or without. The day of the month must be one of its months, whatever the day of the week.

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

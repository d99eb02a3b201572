"""Finds the result of a study that a person means: `demo`, `demo@1` (one back), `demo@2026-11-01`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag_assay.evals.reporting.changes.entry import HistoryEntry, entries_of
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.history import history_studies
from rag_assay.warehouse.paths import Home

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
NameOf = Callable[[str], str]
"""The name of the study of a name or path."""


def chosen(written: str, home: Home, name_of: NameOf) -> HistoryEntry:
    """Return the result that is meant: the last one, one so many results back, or that of a moment.

    A date means the end of that day, in UTC.

    Raises:
        InputError: no such study or result; says which there are.
    """
    name, when = _parted(written)
    found = history_of(name, home, name_of)
    if not when:
        return found[-1]
    if when.isdecimal():
        if int(when) >= len(found):
            raise InputError(
                f"{written}: {found[0].study} has had {len(found)} results; @{len(found) - 1} is its first"
            )
        return found[-1 - int(when)]
    moment = _moment(written, when)
    until = [one for one in found if one.at <= moment]
    if not until:
        study, at = found[0].study, f"{found[0].at:%Y-%m-%d %H:%M} UTC"
        first = f"its first is of {at} (`{study}@{len(found) - 1}`)"
        raise InputError(f"{written}: no result of {study} is that old; {first}")
    return until[-1]


def history_of(name: str, home: Home, name_of: NameOf) -> list[HistoryEntry]:
    """Return the results of a study, the oldest first.

    Raises:
        InputError: it has none.
    """
    study = name if name in history_studies(home) else name_of(name)
    found = entries_of(home, study)
    if not found:
        raise InputError(f"{study} has no history yet; `assay run {name}` begins one")
    return found


def _parted(written: str) -> tuple[str, str]:
    """Part a name or path from the moment.

    >>> _parted("demo@2026-11-01"), _parted("demo")
    (('demo', '2026-11-01'), ('demo', ''))
    """
    if Path(written).is_file():
        return written, ""
    name, _, when = written.rpartition("@")
    return (name, when) if name else (written, "")


def _moment(written: str, when: str) -> datetime:
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        what = "write a date as in 2026-11-01 or 2026-11-01T14:30 (UTC), or how many results back, as in @1"
        raise InputError(f"{written}: {when!r} is no moment; {what}") from None
    if _DAY.fullmatch(when):
        moment += timedelta(days=1) - timedelta(microseconds=1)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

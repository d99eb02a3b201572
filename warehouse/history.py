"""Which result each study had when: `<home>/history/<study>.jsonl`, a line for each change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from rag_assay.warehouse.journal import append, read_records
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import HISTORY

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

Record = dict[str, Any]
ENTRY = "entry"
_NEEDED = ("study", ENTRY, "since", "leaderboard")


def history_studies(home: Home) -> list[str]:
    return sorted(path.stem for path in (home.root / "history").glob("*.jsonl"))


def history_records(home: Home, study: str) -> list[Record]:
    """Return the lines of a study, the oldest first, each id once; what a kill has torn is left out."""
    found: dict[str, Record] = {}
    for record in read_records(home.history(study), _is_entry):
        found.setdefault(record[ENTRY], record)
    return list(found.values())


def _is_entry(record: Mapping[str, Any]) -> bool:
    return all(isinstance(record.get(name), str) for name in _NEEDED)


def add_record(home: Home, record: Record) -> bool:
    """Return whether the line is new. Raises LockedError: another process held the file for a minute."""
    return append(home.history(record["study"]), [record], ENTRY, _is_entry) == 1


def history_rows(home: Home) -> pl.DataFrame:
    rows = [
        {
            **{name: record.get(name) for name in HISTORY if name not in {"number", "details"}},
            "number": number,
            "details": json.dumps(record),
        }
        for study in history_studies(home)
        for number, record in enumerate(history_records(home, study), start=1)
    ]
    moments = pl.col("since").str.to_datetime(time_unit="us", time_zone="UTC")
    table = frame(rows, {**HISTORY, "since": pl.String})
    return table.with_columns(moments)

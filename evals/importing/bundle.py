"""What is kept of an imported sheet, and where.

A study that was imported lies in `<home>/imports/<study>/`:

    study.yaml          a study file like any other; written once, then the person's own
    questions.jsonl     the questions of all of its sheets
    sheets/<name>/      a sheet: rows.parquet (`annotation_schemas.IMPORTED`) and sheet.json (`Sheet`)

A sheet is put there as a whole, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warehouse.paths import Home

ROWS, SHEET, STUDY_FILE, QUESTIONS_FILE = "rows.parquet", "sheet.json", "study.yaml", "questions.jsonl"


@dataclass(frozen=True)
class Sheet:
    """Where the rows of a sheet are from.

    name: of the sheet in its study: another sheet of that name replaces it
    file: the name of the file; sha256: of its bytes
    mapping: digest of the mapping that was read by
    rows: that were taken; rejects: that were not, as `FILE:LINE: reason`
    """

    name: str
    file: str
    sha256: str
    mapping: str
    rows: int
    rejects: tuple[str, ...] = ()


def imports_folder(home: Home, study: str) -> Path:
    """Return the folder of an imported study."""
    return home.root / "imports" / study

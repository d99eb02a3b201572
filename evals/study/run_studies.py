"""Remembers which study files were run in a home or imported into it, for the Dagster UI."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from rag_assay.evals.spreadsheet_import.bundle import imported_files
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import StudyCollection, read_study
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.remote import mirror_of


def note(study: Study, home: Home) -> None:
    """Remember that a study file is run in a home."""
    path = home.root / "studies" / f"{digest(str(study.path))}.json"
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"study": study.study, "path": str(study.path)}))
    if mirror := mirror_of(home):
        mirror.push("studies")  # workers on other machines make their definitions of it


def recorded_studies(home: Home) -> list[Path]:
    """Return the study files that were run in a home or imported into it and are still there.

    The one that was run last comes first; those that were imported and never run come last.
    """
    if mirror := mirror_of(home):
        mirror.pull("studies")
    found: dict[Path, float] = {}
    for record in (home.root / "studies").glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            path = Path(json.loads(record.read_text())["path"])
            if path.is_file():
                found[path] = record.stat().st_mtime
    for path in imported_files(home):
        found.setdefault(path, 0.0)
    return sorted(found, key=lambda path: (-found[path], path))


def refuse_taken(study: Study, home: Home) -> None:
    """Refuse a study whose names stand for something else in another study that was run in the home.

    Their results would lie under the same keys, and the report of one would show those of the other.

    Raises:
        InputError: with one finding a name; it names the other file and says what to do.
    """
    others: list[Study] = []
    for path in recorded_studies(home):
        if path != study.path:
            with suppress(InputError):  # it cannot be run as it is now, so that nothing of it is mixed in
                others.append(read_study(path))
    findings: list[str] = []
    for other in others:
        try:
            StudyCollection([other, study])
        except InputError as error:
            findings += error.findings
    if findings:
        raise InputError(
            *dict.fromkeys(findings),
            f"or keep the two apart: ASSAY_HOME=another/folder assay run {study.path}",
        )

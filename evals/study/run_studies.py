"""The studies of a workspace: those of the folder of study files, and those that were run or imported."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.evals.spreadsheet_import.bundle import imported_files
from rag_assay.evals.study.slice_selection import (
    KnownSlice,
    find_slice,
    forget_results,
    forget_slice,
    is_slice,
    known_slices,
)
from rag_assay.evals.study.study_file import (
    StudyCollection,
    is_path,
    name_in,
    named_parts,
    read_studies,
    read_study,
    study_path,
)
from rag_assay.evals.study.study_names import BUNDLED, study_files
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.remote import mirror_of
from rag_assay.warehouse.suggestions import did_you_mean

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study
    from rag_assay.warehouse.paths import Home


@dataclass(frozen=True)
class KnownStudy:
    """A study; path: None: its file was deleted; cells: None: the file cannot be used."""

    name: str
    path: Path | None
    cells: int | None
    run_at: datetime | None
    mistake: str | None = None
    slices: tuple[KnownSlice, ...] = ()
    study: Study | None = None


def known_studies(home: Home) -> list[KnownStudy]:
    store = ArtifactStore(home)
    paths = dict.fromkeys([*recorded_studies(home), *(path.resolve() for path in study_files())])
    found = [_of_file(path, store) for path in paths]
    names = {one.name for one in found}
    gone = [name for name in store.keys("leaderboard") if name not in names and not is_slice(name)]
    together = sorted([*found, *(_of_run(name, store) for name in gone)], key=lambda one: one.name)
    slices = known_slices(home)
    return [
        replace(one, slices=tuple(part for part in slices if (part.whole, part.path) == (one.name, one.path)))
        for one in together
    ]


def _of_file(path: Path, store: ArtifactStore) -> KnownStudy:
    try:
        study = read_study(path)
    except InputError as error:
        more = len(error.findings) - 1
        mistake = error.findings[0] + (f" (and {more} more)" if more else "")
        return KnownStudy(path.stem, path, None, _run_at(path.stem, store), mistake)
    return KnownStudy(study.study, path, len(study.cells()), _run_at(study.study, store), study=study)


def _of_run(name: str, store: ArtifactStore) -> KnownStudy:
    artifact = store.current("leaderboard", name)
    cells = artifact.meta.get("cells") if artifact else None
    return KnownStudy(name, None, cells, _run_at(name, store))


def _run_at(name: str, store: ArtifactStore) -> datetime | None:
    at = store.pointed_at("leaderboard", name)
    return datetime.fromtimestamp(at, UTC) if at is not None else None


def known_path(name: str, home: Home) -> Path:
    known = {} if is_path(name) else {name_in(path): path for path in reversed(recorded_studies(home))}
    return known.get(name) or study_path(name, also=[one for one in known if one])


def find_known(name: str, home: Home) -> Study:
    return find_slice(name, home) if is_slice(name) else read_study(known_path(name, home))


def taken_names(home: Home, path: Path) -> set[str]:
    others = [one for one in known_studies(home) if one.path is None or one.path != path.resolve()]
    taken = {one.name for one in others}
    for one in others:
        if one.study is not None:
            taken |= {name for _part, name, _recipe in named_parts(one.study)}
    return taken


def forget(name: str, home: Home) -> list[Path]:
    if is_slice(name):
        return forget_slice(name, home)
    known = {one.name: one for one in known_studies(home)}
    if name not in known or known[name].run_at is None:
        gone = [one.name for one in known.values() if one.path is None]
        slices = [part.name for one in known.values() for part in one.slices]
        raise InputError(f"nothing is stored of {name!r}; {did_you_mean(name, [*gone, *slices])}")
    if path := known[name].path:
        raise InputError(f"the study {name} has its file, {path}; remove that first to forget its results")
    return forget_results(name, home)


def record_of(study: Study, home: Home) -> Path:
    """Return the file that records that a study was run, and by its time when."""
    return home.root / "studies" / f"{digest(str(study.path))}.json"


def note(study: Study, home: Home) -> None:
    with atomic_write(record_of(study, home)) as temporary:
        temporary.write_text(json.dumps({"study": study.study, "path": str(study.path)}))
    if mirror := mirror_of(home):
        mirror.push("studies")  # workers on other machines make their definitions of it


def recorded_studies(home: Home) -> list[Path]:
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


def own_studies(home: Home) -> StudyCollection:
    own = study_files() if os.environ.get("ASSAY_STUDIES") else []
    return read_studies([*recorded_studies(home), *own] or [BUNDLED / "demo.yaml"])


def refuse_taken(study: Study, home: Home) -> None:
    """Refuse a study whose names stand for something else in a recorded one."""
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

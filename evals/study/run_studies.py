"""The studies of a workspace, in its folder, run or imported, and slices: some cells and questions of one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rag_assay.evals.spreadsheet_import.bundle import imported_files
from rag_assay.evals.study.cells import MARK, NO_GENERATOR, Cell, Layer, Slice
from rag_assay.evals.study.grid import read_questions_of
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
from rag_assay.warehouse.suggestions import did_you_mean, near_names

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study
    from rag_assay.warehouse.paths import Home

_WILD = frozenset("*?[")


def slice_study(study: Study, cells: Sequence[str] = (), questions: str | None = None) -> Study:
    """Return the slice of a study, with the cells that judges or rubrics compare others with; the study
    itself where nothing is left out. questions: how many, drawn by the seed; or ids and patterns with commas
    between.
    """
    if not cells and questions is None:
        return study
    layer = Layer(tuple(dict.fromkeys(cells)), questions)
    known = study.cells()
    chosen = _chosen_cells(study, known, layer.cells)
    ids = [row["question_id"] for row in read_questions_of(study)]
    asked = _chosen_questions(study, ids, questions)
    if len(chosen) == len(known) and len(asked) == len(ids):
        return study
    before = study.slice
    layers = (*(before.layers if before else ()), layer)
    of_cells, of_questions = (before.of_cells, before.of_questions) if before else (len(known), len(ids))
    part = Slice(
        study.whole,
        frozenset(cell.short for cell in chosen) if len(chosen) < of_cells else None,
        frozenset(asked) if len(asked) < of_questions else None,
        *(len(chosen), of_cells, len(asked), of_questions, layers),
    )
    name = digest([[sorted(one.cells), one.questions] for one in layers])[:6]
    return study.sliced(f"{study.whole}{MARK}{name}", part)


def _chosen_cells(study: Study, known: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    if not patterns:
        return list(known)
    chosen: set[str] = set()
    for pattern in patterns:
        found = {
            cell.key for cell in known if any(fnmatchcase(name, pattern) for name in _names(study, cell))
        }
        if not found:
            raise InputError(f"--cells: {pattern!r} is not a cell of {study.study}; {_near(study, pattern)}")
        chosen |= found
    compare = [one.against for one in study.judges.values()] + [one.against for one in study.rubrics.values()]
    rivals = {cell.key for name in compare if (cell := study.cell_named(name))}
    return [cell for cell in known if cell.key in chosen | rivals]


def _names(study: Study, cell: Cell) -> list[str]:
    names = [cell.short, f"{study.whole}.{cell.short}"]
    if cell.generator == NO_GENERATOR:
        names += [name.removesuffix(f".{NO_GENERATOR}") for name in names]
    return names


def _near(study: Study, pattern: str) -> str:
    known = [cell.short for cell in study.cells()]
    if near := near_names(pattern.strip("*."), known, most=3):
        return f"near are {', '.join(near)}"
    words = [part for part in pattern.split(".") if part.strip("*?")]
    parts = sorted({part for name in known for part in name.split(".")})
    near = [one for word in words if word not in parts for one in near_names(word.strip("*?"), parts)]
    named = [name for name in known if set(near) & set(name.split("."))] if near else known
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return f"near are {', '.join(named[:3])}{more}" if near else f"known are {', '.join(named[:3])}{more}"


def _chosen_questions(study: Study, ids: Sequence[str], wanted: str | None) -> list[str]:
    if wanted is None:
        return list(ids)
    if wanted.strip().isdecimal():
        n = int(wanted)
        if not n:
            raise InputError("--questions: 0 questions would show nothing; ask one at least")
        return study.sampled(list(ids), n)
    known, chosen = set(ids), set[str]()
    for one in (part.strip() for part in wanted.split(",") if part.strip()):
        found = {one} & known or {name for name in ids if _WILD & set(one) and fnmatchcase(name, one)}
        if not found:
            near = near_names(one, ids, most=3)
            offered = f"near are {', '.join(near)}" if near else did_you_mean(one, [*ids[:3], "…"])
            raise InputError(f"--questions: {one!r} is not a question of {study.study}; {offered}")
        chosen |= found
    if not chosen:
        raise InputError("--questions: give a number, or ids and patterns with commas between them")
    return [name for name in ids if name in chosen]


class KnownSlice(NamedTuple):
    """A slice that was run, by its record."""

    name: str
    whole: str
    path: Path
    n_cells: int
    of_cells: int
    n_questions: int
    of_questions: int
    layers: tuple[Layer, ...]

    @property
    def options(self) -> str:
        return ", of that ".join(one.options for one in self.layers)


def note_slice(study: Study, home: Home) -> None:
    part = study.slice
    if part is None:
        return
    told = {name: one for name, one in asdict(part).items() if name in KnownSlice._fields}
    data = {"name": study.study, "path": str(study.path), **told}
    with atomic_write(_record(home, study.study)) as temporary:
        temporary.write_text(json.dumps(data))


def known_slices(home: Home) -> list[KnownSlice]:
    found = (_read(path) for path in sorted((home.root / "slices").glob("*.json")))
    return [one for one in found if one is not None]


def is_slice(name: str) -> bool:
    return MARK in name and "/" not in name and not name.endswith((".yaml", ".yml"))


def find_slice(name: str, home: Home) -> Study:
    known = _read(_record(home, name))
    if known is None:
        names = [one.name for one in known_slices(home)]
        raise InputError(f"there is no slice {name!r}; {did_you_mean(name, names)}")
    study = read_study(known.path)
    for layer in known.layers:
        study = slice_study(study, layer.cells, layer.questions)
    if study.study != name:
        raise InputError(f"{name} leaves nothing out of {known.path} by now; give {study.study}")
    return study


def forget_slice(name: str, home: Home) -> list[Path]:
    if not is_slice(name) or not _record(home, name).is_file():
        find_slice(name, home)
    gone = forget_results(name, home)
    _record(home, name).unlink(missing_ok=True)  # the last: a kill before leaves it to be found
    return gone


def forget_results(name: str, home: Home) -> list[Path]:
    from rag_assay.warehouse.study_records import remove_study_record, study_of
    from rag_assay.warehouse.tables import OF_STUDIES

    store = ArtifactStore(home)
    for stage in (*OF_STUDIES, "report"):
        store.unpoint(stage, [key for key in store.keys(stage) if study_of(key) == name])
    remove_study_record(home, name)
    gone = [path for path in (home.report(name), home.report_rows(name)) if path.exists()]
    for path in gone:
        path.unlink(missing_ok=True)
    return gone


def _record(home: Home, name: str) -> Path:
    return home.root / "slices" / f"{name}.json"


def _read(path: Path) -> KnownSlice | None:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        data = json.loads(path.read_text(encoding="utf-8"))
        layers = tuple(Layer(tuple(one["cells"]), one["questions"]) for one in data["layers"])
        known = KnownSlice(**{**data, "path": Path(data["path"]), "layers": layers})
        return known if known.name == path.stem else None
    return None


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

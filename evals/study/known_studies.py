"""Lists the known study files and the studies that were run in a home."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rag_assay.evals.study.run_studies import recorded_studies
from rag_assay.evals.study.slice_selection import (
    KnownSlice,
    find_slice,
    forget_results,
    forget_slice,
    is_slice,
    known_slices,
)
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import is_path, name_in, named_parts, read_study, study_path
from rag_assay.evals.study.study_names import study_files
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.suggestions import did_you_mean


@dataclass(frozen=True)
class KnownStudy:
    """A study and what came of it.

    name: as its file says it; the file's name where that cannot be read
    path: its file; None: it was run, and its file is known no longer
    cells: of its file now, or of its last run where there is no file; None where the file cannot be used
    run_at: when its leaderboard was made, None: never in this home
    mistake: the first thing that is wrong with its file, and how many more
    slices: parts of it that were run
    """

    name: str
    path: Path | None
    cells: int | None
    run_at: datetime | None
    mistake: str | None = None
    slices: tuple[KnownSlice, ...] = ()


def known_studies(home: Home) -> list[KnownStudy]:
    """Return the studies of the folder of study files and those that were run in a home, by name."""
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
    return KnownStudy(study.study, path, len(study.cells()), _run_at(study.study, store))


def _of_run(name: str, store: ArtifactStore) -> KnownStudy:
    artifact = store.current("leaderboard", name)
    cells = artifact.meta.get("cells") if artifact else None
    return KnownStudy(name, None, cells, _run_at(name, store))


def _run_at(name: str, store: ArtifactStore) -> datetime | None:
    """Return when the leaderboard of now was first pointed at: an idle run makes none."""
    at = store.pointed_at("leaderboard", name)
    return datetime.fromtimestamp(at, UTC) if at is not None else None


def taken_names(home: Home, path: Path) -> set[str]:
    """Return the names that studies other than that of a path have for themselves and what they share."""
    others = [one for one in known_studies(home) if one.path is None or one.path != path.resolve()]
    taken = {one.name for one in others}
    for one in others:
        if one.path is not None and one.cells is not None:
            taken |= {name for _part, name, _recipe in named_parts(read_study(one.path))}
    return taken


def known_path(name: str, home: Home) -> Path:
    """Return the file of the study of that name or path; one of the home's goes first.

    Raises:
        InputError: there is none; says which there are.
    """
    known = {} if is_path(name) else {name_in(path): path for path in reversed(recorded_studies(home))}
    return known.get(name) or study_path(name, also=[one for one in known if one])


def find_known(name: str, home: Home) -> Study:
    """Return the study of that name or path, as `known_path` finds it, or the slice of that name.

    Raises:
        InputError: there is none, or its file cannot be used.
    """
    return find_slice(name, home) if is_slice(name) else read_study(known_path(name, home))


def forget(name: str, home: Home) -> list[Path]:
    """Forget a slice, or a study whose file is gone; return the files of its report, which were removed.

    Raises:
        InputError: there is neither, or the file of the study is there.
    """
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

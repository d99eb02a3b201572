"""What every command begins with: the workspace, and the study that it was given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.orchestration.settings import Settings, prepare
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home, home

if TYPE_CHECKING:
    from rag_assay.evals.study.study import Study


def home_to_look_at() -> Home:
    """Return the home without making it: looking changes nothing."""
    return Home(Settings().place())


def prepare_home() -> Home:
    prepare(Settings())
    return home()


def home_of(study: Study) -> Home:
    """Return the prepared home, unless the study's names stand for another study's things there."""
    from rag_assay.evals.study.run_studies import refuse_taken

    where = prepare_home()
    refuse_taken(study, where)
    return where


def study_of(name: str) -> Study:
    """Return the study of a name or path, as a person may say it, with the cells that its search left."""
    from rag_assay.evals.successive_halving.records import narrow_study

    return narrow_study(study_as_written(name), home_to_look_at())


def study_as_written(name: str) -> Study:
    from rag_assay.evals.study.run_studies import find_known

    return find_known(name, home_to_look_at())


def whole_study_of(name: str) -> Study:
    """Return the study of a name or path, for what a slice of one has not of its own."""
    found = study_of(name)
    if found.slice is not None:
        raise InputError(
            f"{found.study} is a slice of the study {found.whole}; this belongs to the whole: "
            f"give {found.whole}"
        )
    return found


def files_of(study: Study) -> set[Path]:
    """Return the file of a study, and what its texts may be the paths of, there or not."""
    return {study.path, *_paths(study.path, study.model_dump(mode="json"))}


def files_of_broken(path: Path) -> set[Path]:
    import yaml

    written = None
    with suppress(OSError, ValueError, yaml.YAMLError):
        written = yaml.safe_load(os.path.expandvars(path.read_text(encoding="utf-8")))
    return {path, *_paths(path, written)}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _paths(file: Path, written: object) -> Iterator[Path]:
    for text in filter(None, _texts(written)):
        with suppress(OSError, ValueError, RuntimeError):  # too long, with a zero byte, of an unknown `~user`
            for base in (file.parent, Path.cwd()):
                path = base / Path(text).expanduser()
                path.exists()
                yield path

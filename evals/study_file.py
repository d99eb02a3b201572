"""Reading study files: every error at once, each with file, line, what is wrong and what would be right."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evals.study import Study
from warehouse.errors import InputError
from warehouse.marked_yaml import MarkedYaml, Place, load

BUNDLED = Path(__file__).parent / "studies"
log = logging.getLogger(__name__)


def read_study(path: Path) -> Study:
    """Read and check one study file.

    Raises:
        InputError: with one finding an error, each `file:line: what is wrong; what would be right`.
    """
    marked = load(path)
    if not isinstance(marked.data, dict):
        raise InputError(f"{path}:1: a study is a mapping that begins with `study: NAME`")
    if "path" in marked.data:
        raise InputError(f"{marked.at(('path',))}: unknown key `path`")
    try:
        study = Study.model_validate({**marked.data, "path": path.resolve()})
    except ValidationError as error:
        raise InputError(*dict.fromkeys(_finding(marked, detail) for detail in _telling(error.errors()))) from error
    _check_paths(study, marked)
    return study


def _telling(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out what only follows from another error: a list that is too short since its item was wrong."""
    places = [detail["loc"] for detail in details]
    return [
        detail
        for detail in details
        if not any(len(p) > len(detail["loc"]) and p[: len(detail["loc"])] == detail["loc"] for p in places)
    ]


def _finding(marked: MarkedYaml, detail: ErrorDetails) -> str:
    place: Place = detail["loc"]
    where = ".".join(str(part) for part in place if part != "[key]")
    if detail["type"] == "extra_forbidden":
        return f"{marked.at(place)}: unknown key `{place[-1]}`{_instead(place)}"
    if detail["type"] == "missing":
        return f"{marked.at(place)}: `{where}` is missing"
    message = detail["msg"].removeprefix("Value error, ")
    if place and place[-1] == "[key]":
        return f"{marked.at(place[:-1])}: the name `{place[-2]}` will not do: use small letters, digits, - _ +"
    given = detail["input"]
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) and len(str(given)) < 80 else ""
    return f"{marked.at(place)}: {where + ': ' if where else ''}{message}{shown}"


def _instead(place: Place) -> str:
    """Name the keys that would be right at a place, nearest first."""
    known = _keys_at(Study, place[:-1])
    if not known:
        return ""
    near = get_close_matches(str(place[-1]), known, n=1)
    return f"; did you mean `{near[0]}`?" if near else f"; known here are {', '.join(known)}"


def _keys_at(model: Any, place: Place) -> list[str]:
    """Walk the types of the study along a place and return the keys that its mapping may have."""
    for part in place:
        model = _step(model, part)
        if model is None:
            return []
    fields = getattr(_model(model), "model_fields", {})
    return [name for name in fields if name != "path"]


def _step(annotation: Any, part: str | int) -> Any:
    model = _model(annotation)
    if model is not None:
        field = model.model_fields.get(part)
        return field.annotation if field else None
    arguments = getattr(_unwrapped(annotation), "__args__", ())
    return arguments[0] if isinstance(part, int) and arguments else arguments[-1] if arguments else None


def _unwrapped(annotation: Any) -> Any:
    """Take `| None` and Annotated off a type."""
    while True:
        arguments = getattr(annotation, "__args__", ())
        if hasattr(annotation, "__metadata__"):
            annotation = annotation.__origin__
        elif type(None) in arguments:
            annotation = next(a for a in arguments if a is not type(None))
        else:
            return annotation


def _model(annotation: Any) -> type[BaseModel] | None:
    plain = _unwrapped(annotation)
    return plain if isinstance(plain, type) and issubclass(plain, BaseModel) else None


def _check_paths(study: Study, marked: MarkedYaml) -> None:
    """Check that the files and folders of a study are there before anything runs."""
    findings = []
    for number, source in enumerate(study.questions):
        named = source.file or (source.beir.path if source.beir else "")
        if not study.resolve(named).exists():
            findings.append(f"{marked.at(('questions', number))}: there is no {study.resolve(named)}")
    for name, spec in study.sources.items():
        if spec.path and not study.resolve(spec.path).exists():
            findings.append(f"{marked.at(('sources', name, 'path'))}: there is no {study.resolve(spec.path)}")
    if findings:
        raise InputError(*findings)


class Book:
    """The studies that are known together: their names mean the same things in all of them."""

    def __init__(self, studies: Iterable[Study]) -> None:
        self.studies = {study.study: study for study in studies}
        self._check_names()

    def _check_names(self) -> None:
        meaning: dict[tuple[str, str], tuple[str, Study]] = {}
        findings = []
        for study in self.studies.values():
            for part, name, recipe in named_parts(study):
                known = meaning.setdefault((part, name), (recipe, study))
                if known[0] != recipe:
                    findings.append(
                        f"{study.path}: {part}.{name} means something else in {known[1].path}; "
                        "the same name in two studies must mean the same, so rename one of them"
                    )
        if findings:
            raise InputError(*findings)


def named_parts(study: Study) -> list[tuple[str, str, str]]:
    """Return (part, name, its recipe as JSON) for all that studies may share."""
    parts: list[tuple[str, dict[str, Any]]] = [
        ("sources", study.sources),
        ("corpus", {study.corpus.name: study.corpus}),
        ("chunkings", study.chunkings),
        ("embedders", study.embedders),
        ("retrievers", study.retrievers),
        ("generators", study.generators),
    ]
    return [(part, name, recipe.model_dump_json()) for part, recipes in parts for name, recipe in recipes.items()]


def study_folder() -> Path:
    """Return the folder of study files: `ASSAY_STUDIES`, or the ones that come with the project."""
    return Path(os.environ.get("ASSAY_STUDIES") or BUNDLED).expanduser()


def read_book(folder: Path | None = None) -> Book:
    """Read all study files of a folder for the Dagster definitions.

    A file that cannot be used is left out with a warning, so that one mistake does not hide all other studies;
    `assay check FILE` says the same of it as an error.
    """
    studies: list[Study] = []
    for path in sorted((folder or study_folder()).glob("*.yaml")):
        if path.name.endswith(".questions.yaml"):
            continue
        try:
            study = read_study(path)
            Book([*studies, study])
        except InputError as error:
            log.warning("the study file %s is left out: %s", path, "; ".join(error.findings))
        else:
            studies.append(study)
    return Book(studies)


def find_study(name: str) -> Study:
    """Return the study of that name or path.

    Raises:
        InputError: there is none; says which there are.
    """
    if name.endswith((".yaml", ".yml")) or Path(name).is_file():
        return read_study(Path(name))
    path = study_folder() / f"{name}.yaml"
    if path.is_file():
        return read_study(path)
    for candidate in sorted(study_folder().glob("*.yaml")):
        if candidate.name.endswith(".questions.yaml"):
            continue
        marked_name = _name_of(candidate)
        if marked_name == name:
            return read_study(candidate)
    known = [p.stem for p in sorted(study_folder().glob("*.yaml")) if not p.name.endswith(".questions.yaml")]
    raise InputError(f"there is no study {name!r}; known are {', '.join(known) or 'none'}, or give the path of a study file")


def _name_of(path: Path) -> str | None:
    try:
        data = load(path).data
    except InputError:
        return None
    return data.get("study") if isinstance(data, dict) else None

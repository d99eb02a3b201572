"""Reading study files: every error at once, each with file, line, what is wrong and what would be right."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rag_assay.assets.recipes.build_half import absolute
from rag_assay.evals.generation.answer_prompt import samples
from rag_assay.evals.generation.templates import Template
from rag_assay.evals.study.consistency import misfits
from rag_assay.evals.study.grid import question_sets, set_name
from rag_assay.evals.study.imported_study import (
    IMPORTS,
    OF_SHEETS,
    SHEET_CELLS,
    ImportedStudy,
    SystemStudy,
    is_of_systems,
    read_sheet_cells,
    with_axes,
)
from rag_assay.evals.study.servers import open_servers
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_names import known_names, study_files, study_folder
from rag_assay.warehouse.arrow_files import arrow_files
from rag_assay.warehouse.errors import InputError, Mistake, NotSetError
from rag_assay.warehouse.files import check_regular
from rag_assay.warehouse.identity import canonical
from rag_assay.warehouse.inference.redaction import without_key
from rag_assay.warehouse.source import is_url
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import NAME_PATTERN, NAME_RULE, Finding, in_words, lines_of
from rag_assay.warehouse.yaml_positions import Place, load


def with_absolute_prompts(data: dict[str, Any], base: Path) -> dict[str, Any]:
    found = data
    for place, path in _named(data):
        try:
            found = _changed(found, place, str(absolute(path, base)))
        except InputError:
            continue  # which `prompt_mistakes` tells
    return found


def prompt_mistakes(data: dict[str, Any], base: Path) -> tuple[list[Finding], list[Mistake]]:
    found: list[Finding] = []
    mistakes: list[Mistake] = []
    for place, path in _named(data):
        try:
            mistakes += Template.read(absolute(path, base)).mistakes(samples())
        except InputError as error:
            inside = [one for one in error.findings if isinstance(one, Mistake)]
            mistakes += inside
            found += [] if inside else [Finding(place, "no_file", str(error))]
    return found, list(dict.fromkeys(mistakes))


def _named(data: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    for name, kinds in _items(data.get("generators")):
        for kind, options in _items(kinds):
            prompt = options.get("prompt") if isinstance(options, dict) else None
            path = prompt.get("file") if isinstance(prompt, dict) else None
            if isinstance(path, str):
                yield ("generators", name, kind, "prompt", "file"), path


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _changed(data: Any, place: Place, value: str) -> Any:
    if not place:
        return value
    return {**data, place[0]: _changed(data[place[0]], place[1:], value)}


def unfit_cells(study: Study) -> list[Finding]:
    cells = [cell.key.partition(".")[2] for cell in study.cells()]
    named: list[tuple[Place, str, str]] = []
    for part, those in (("judges", study.judges), ("rubrics", study.rubrics)):
        for name, one in those.items():
            if one.against is not None:
                named.append(((part, name), f"`{name}` compares with the cell", one.against))
    for number, name in enumerate(study.annotation.cells or ()):
        named.append((("annotation", "cells", number), "`annotation` names the cell", name))
    if study.search is not None and study.search.base is not None:
        named.append((("search", "base"), "`search` begins with the cell", study.search.base))
    what = "which the study does not have"
    found = [
        Finding(place, "unknown_cell", f"{text} `{cell}`, {what}; {did_you_mean(cell, cells)}")
        for place, text, cell in named
        if cell not in cells
    ]
    if study.search is not None and isinstance(study, ImportedStudy):
        text = "the answers of this study are there, and a search would spare nothing: delete `search`"
        found.append(Finding(("search",), "of_built_study", text))
    if study.rubrics and not found and not any(map(study.people_score, study.cells())):
        text = "`annotation` leaves people no cell to score; widen `annotation`"
        found.append(Finding(("annotation",), "no_cell", text))
    return found


log = logging.getLogger(__name__)


def read_study(path: Path, *, sources_gone: bool = False, text: str | None = None) -> Study:
    """Read and check a study file and the files that it names; text: as of its last run; None: now"""
    marked = load(path, text)
    if not isinstance(marked.data, dict):
        raise InputError(Mistake("no_study", path, 1, "a study is a mapping that begins with `study: NAME`"))
    if "question_set" in marked.data and "study" not in marked.data:
        beside = path.with_name(path.name.replace(".questions", ""))
        study_file = beside if beside != path and beside.is_file() else "STUDY"
        raise InputError(
            f"{path}: this is a question file; give the study that names it: `assay check {study_file}`"
        )
    base = path.resolve().parent
    prompts, in_prompts = prompt_mistakes(marked.data, base)
    kind, data, of_sheets = _as_it_is(marked.data, base)
    findings = [
        *of_sheets,
        *misfits(data),
        *_absent(marked.data, base, sources_gone=sources_gone),
        *_doubled_sets(marked.data, base),
        *prompts,
    ]
    if "path" in marked.data:
        findings.append(Finding(("path",), "unknown_key", "unknown key `path`"))
    study = None
    try:
        data = with_absolute_prompts(data, base)
        study = kind.model_validate({**data, "path": path.resolve()})
        findings += unfit_cells(study)
    except ValidationError as error:
        # What the models say of the whole study, `misfits` has said with its place.
        told = [found for found in in_words(error, kind) if found.place or not findings]
        findings += [found for found in told if kind is not ImportedStudy or found.place[:1] not in OF_SHEETS]
    if findings or in_prompts or study is None:
        raise InputError(*lines_of(marked, map(_without_secrets, findings)), *in_prompts)
    open_servers(study)
    return study


def _without_secrets(found: Finding) -> Finding:
    text = without_key(found.text)
    if found.place[:1] == ("alerts",):
        text = re.sub(r"://(?:[^\s/@]*@)?([^\s/?#@'`]*)[^\s'`]*", r"://\1/***", text)
    return found._replace(text=text)


def _as_it_is(data: dict[str, Any], base: Path) -> tuple[type[Study], dict[str, Any], list[Finding]]:
    if IMPORTS not in data:
        return (SystemStudy if is_of_systems(data) else Study), data, []
    cells, found = read_sheet_cells(data, base)
    return ImportedStudy, {**with_axes(data, cells), SHEET_CELLS: cells}, found


def _absent(data: dict[str, Any], base: Path, *, sources_gone: bool) -> list[Finding]:
    found: list[Finding] = []
    sources = {} if sources_gone else _mapping(data.get("sources"))
    for name, source in sources.items():
        found += _not_there(_mapping(source).get("path"), ("sources", name, "path"), base)
    for number, item in enumerate(_list(data.get("questions"))):
        place: Place = ("questions", number)
        found += _no_file(_mapping(item).get("file"), (*place, "file"), base, may_be_dataset=True)
        found += _not_there(_mapping(_mapping(item).get("beir")).get("path"), (*place, "beir", "path"), base)
    for name, card in _mapping(data.get("judge_cards")).items():
        labels, place = _mapping(card).get("labels"), ("judge_cards", name, "labels")
        found += _no_file(labels, place, base)
        found += _no_file(_mapping(labels).get("file"), (*place, "file"), base)
    return found


def _not_there(path: Any, place: Place, base: Path) -> list[Finding]:
    if not isinstance(path, str):
        return []
    try:
        target = absolute(path, base)
    except InputError as error:
        return [Finding(place, "no_path", str(error))]
    text = f"there is no {target}; relative paths start from the folder of this file"
    return [] if target.exists() else [Finding(place, "no_file", text)]


def _no_file(path: Any, place: Place, base: Path, *, may_be_dataset: bool = False) -> list[Finding]:
    if found := _not_there(path, place, base):
        return found
    try:
        if isinstance(path, str):
            target = absolute(path, base)
            for one in arrow_files(target) if may_be_dataset and target.is_dir() else [target]:
                check_regular(one)
    except InputError as error:
        return [Finding(place, "no_regular_file", str(error))]
    return []


def _doubled_sets(data: dict[str, Any], base: Path) -> list[Finding]:
    found: list[Finding] = []
    seen: dict[str, int] = {}
    for number, item in enumerate(_list(data.get("questions"))):
        file, beir = _mapping(item).get("file"), _mapping(item).get("beir")
        if isinstance(file, str) and _not_there(file, (), base):
            continue  # which is told of elsewhere
        given = _mapping(item).get("name")
        if isinstance(file, str) and isinstance(given, str):
            name, rename = given, "give it another `name`"
        elif isinstance(file, str):
            name, rename = set_name(absolute(file, base)), "rename the file, or give the set a `name`"
        elif isinstance(beir, dict) and isinstance(beir.get("name", "beir"), str):
            name, rename = beir.get("name", "beir"), "give it another `name`"
        else:
            continue
        if isinstance(file, str) and given is None and not re.fullmatch(NAME_PATTERN, name):
            text = f"the question set is named by its file, and `{name}` will not do: {NAME_RULE}"
            found.append(Finding(("questions", number), "bad_name", text))
        if name in seen:
            first = f"item {seen[name] + 1}"
            text = f"a second question set with the name `{name}` ({first}); {rename}"
            found.append(Finding(("questions", number), "doubled_set", text))
        seen.setdefault(name, number)
    return found


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class StudyCollection:
    """Studies whose names mean the same things in all of them."""

    def __init__(self, studies: Iterable[Study]) -> None:
        found = list(studies)
        self.studies = {study.study: study for study in found}
        meaning: dict[tuple[str, str], tuple[str, Study]] = {}
        findings = []
        for study in found:
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
    sources = {
        name: source.model_copy(update={"path": str(study.resolve(source.path))})
        if source.path and not is_url(source.path)
        else source
        for name, source in study.sources.items()
    }
    parts: list[tuple[str, Mapping[str, BaseModel]]] = [
        ("sources", sources),
        ("corpus", {study.corpus.name: study.corpus}),
        (f"corpus.{study.corpus.name}.chunkings", study.chunkings),
        (f"corpus.{study.corpus.name}.embedders", study.embedders),
    ]
    recipes = [
        (part, name, recipe.model_dump_json()) for part, named in parts for name, recipe in named.items()
    ]
    sets = [
        ("questions", one.key, canonical([str(one.path), *(one.meaning or [None])]))
        for one in question_sets(study)
    ]
    return [("study", study.study, str(study.path)), *recipes, *sets]


def read_studies(paths: Iterable[Path]) -> StudyCollection:
    """Read study files; of two in conflict, the first; unusable files are left out with a warning."""
    studies: list[Study] = []
    for path in dict.fromkeys(path.resolve() for path in paths):
        try:
            study = read_study(path)
            StudyCollection([*studies, study])
        except InputError as error:
            more = len(error.findings) - 1
            # A study that waits for its variable is no mistake: `assay list` says what it waits for.
            level = logging.DEBUG if isinstance(error, NotSetError) else logging.WARNING
            log.log(level, "left out: %s%s", error.findings[0], f" (and {more} more)" if more else "")
        else:
            studies.append(study)
    return StudyCollection(studies)


def study_path(name: str, also: Iterable[str] = ()) -> Path:
    if is_path(name):
        return Path(name)
    path = study_folder() / f"{name}.yaml"
    if path.is_file():
        return path
    for candidate in study_files():
        if name_in(candidate) == name:
            return candidate
    message = f"{did_you_mean(name, sorted({*known_names(), *also}))}, or give the path of a study file"
    raise InputError(f"there is no study {name!r}; {message}")


def is_path(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or Path(name).is_file()


def name_in(path: Path) -> str | None:
    try:
        data = load(path).data
    except InputError:
        return None
    return data.get("study") if isinstance(data, dict) else None

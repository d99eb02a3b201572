"""`ra.evaluate`: a system, or answers that are there already, measured as a study."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rag_assay.evals.question_sets.question_files import yaml_text
from rag_assay.evals.study.consistency import judges_of
from rag_assay.evals.study.registry import JUDGES, SYSTEMS
from rag_assay.evals.systems.http_system import spec_of_url
from rag_assay.evals.systems.live_objects import hold
from rag_assay.orchestration.evaluation_inputs import (
    GivenQuestions,
    document_rows,
    is_question_file,
    question_rows,
)
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import NAME_PATTERN, NAME_RULE

if TYPE_CHECKING:
    from rag_assay.warehouse.paths import Home

SYSTEM = "system"
"""The name of a system that is given without one."""
HEADING = "What `ra.evaluate` measured; it is written again by the next call with this name."
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
OF_ANSWERS = ("semantic_similarity", "rouge_l")
OF_RANKINGS = ("evidence_coverage@2000tokens", "ndcg@10")


class Evaluation(NamedTuple):
    """What `ra.evaluate` was given, beside questions and documents.

    system: None: the answers that the questions have are measured
    version: of systems that are Python objects
    """

    name: str
    system: Any
    metrics: Sequence[str] | None
    judges: Mapping[str, Any] | Iterable[str] | None
    version: str | None
    max_usd: float | None


def write_evaluation(given: Evaluation, questions: object, documents: object, home: Home) -> Path:
    """Write the study of an evaluation and its files, and return the path of the study file.

    Raises:
        InputError: something that was given cannot be used.
    """
    if not re.fullmatch(NAME_PATTERN, given.name):
        raise InputError(f"name {given.name!r}: {NAME_RULE}")
    folder = home.root / "evaluations" / given.name
    in_file = is_question_file(questions)
    rows = GivenQuestions([], []) if in_file else question_rows(questions)
    if given.system is None and not rows.answers:
        raise InputError("give a `system`, or questions that have a `response` or `retrieved_contexts`")
    folder.mkdir(parents=True, exist_ok=True)
    if in_file:
        asked = str(Path(str(questions)).expanduser().absolute())
    else:
        asked = _write_lines(folder / "questions.jsonl", rows.questions)
    if given.system is None:
        file = _write_lines(folder / "answers.jsonl", rows.answers)
        has_answers = any("answer" in one for one in rows.answers)
        systems = {SYSTEM: {"recorded": {"file": file, **({} if has_answers else {"answers": False})}}}
    else:
        systems = _systems(given)
    judges = _judges(given.judges)
    metrics = _listed(given.metrics, "metrics")
    metrics = metrics or _metrics(rows, _judged(judges), documents is not None, given.system is not None)
    if not (metrics or judges):
        raise InputError(
            "nothing can be measured: give questions with a `ground_truth`, `documents`, or `judges`"
        )
    study = {
        "study": given.name,
        **({} if documents is None else {"sources": _sources(documents, given.name, folder)}),
        "systems": systems,
        "questions": [{"file": asked, "name": f"{given.name}-questions"[:60]}],
        **({"judges": judges} if judges else {}),
        "metrics": metrics,
        **({} if given.max_usd is None else {"budget": {"usd": given.max_usd}}),
    }
    return _write(folder / "study.yaml", yaml_text(study, HEADING))


def _systems(given: Evaluation) -> dict[str, Any]:
    system = given.system
    is_spec = isinstance(system, Mapping) and any(
        name in SYSTEMS and isinstance(one, str | Mapping) for name, one in system.items()
    )
    is_several = isinstance(system, Mapping) and not is_spec
    named = system if is_several else {SYSTEM: system}
    if not named:
        raise InputError("system: the mapping is empty; give `{name: system}`")
    return {name: _system(name, one, given) for name, one in named.items()}


def _system(name: str, system: Any, given: Evaluation) -> dict[str, Any]:
    version = {} if given.version is None else {"version": given.version}
    if isinstance(system, Mapping):
        return {**system, **({} if _says(system, "version") else version)}
    if isinstance(system, str):
        if system.startswith(("http://", "https://")):
            return {**spec_of_url(system), **version}
        if _PLACE.fullmatch(system):
            return {"python": {"call": system}, **version}
        raise InputError(f"system {system!r}: expected a URL, `module:function`, or an object")
    methods = ("invoke", "query", "retrieve", "run", "__call__")
    if not any(callable(getattr(system, one, None)) for one in methods):
        raise InputError(f"system: {type(system).__name__} has none of {', '.join(methods)}")
    has_answers = {} if _answers(system) else {"answers": False}
    return {"python": {"call": hold(system, name, given.version), **has_answers}, **version}


def _says(spec: Mapping[str, Any], key: str) -> bool:
    return key in spec or any(isinstance(one, Mapping) and key in one for one in spec.values())


def _answers(system: Any) -> bool:
    """Return whether an object answers: retrievers of LangChain and LlamaIndex only retrieve."""
    names = {kind.__name__ for kind in type(system).__mro__}
    return not names & {"BaseRetriever"}


def _judges(given: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Any]:
    if given is None:
        return {}
    named = given if isinstance(given, Mapping) else {one: one for one in _listed(given, "judges")}
    found = {name: {one: {}} if isinstance(one, str) else one for name, one in named.items()}
    for one in found.values():
        kinds = [*one] if isinstance(one, Mapping) else [str(one)]
        for kind in kinds:
            if kind not in JUDGES:
                raise InputError(f"judges: unknown judge {kind!r}; {did_you_mean(kind, JUDGES)}")
    return found


def _judged(judges: Mapping[str, Any]) -> list[str]:
    read = judges_of(dict(judges)) or {}
    return [f"{name}.{one.name}" for name, judge in read.items() if judge for one in judge.judged_metrics]


def _metrics(rows: GivenQuestions, judged: Sequence[str], has_documents: bool, is_called: bool) -> list[str]:
    """Return the default metrics: those that these questions and systems have something for; without any,
    those of the judges. The first one ranks the systems.
    """
    has_truth = any(one.get("ground_truth") for one in rows.questions) or not rows.questions
    has_evidence = has_documents and (any("evidence" in one for one in rows.questions) or not rows.questions)
    answered = is_called or any("answer" in one for one in rows.answers)
    found = [*(OF_RANKINGS if has_evidence else ()), *(OF_ANSWERS if has_truth and answered else ())]
    return [*(found or judged), *(["answer_latency"] if is_called else [])]


def _listed(given: Iterable[str] | None, parameter: str) -> list[str]:
    if isinstance(given, str):
        raise InputError(f"{parameter} {given!r}: expected a list, as in [{given!r}]")
    return list(given or ())


def _sources(documents: Any, name: str, folder: Path) -> dict[str, Any]:
    if not isinstance(documents, str | Path):
        file = _write_lines(folder / "documents.jsonl", document_rows(documents))
        return {f"{name}-documents": {"reader": "jsonl", "path": file}}
    import yaml

    from rag_assay.orchestration.templates.study_files import describe_source

    described = describe_source(str(documents), name=name)
    return {key: yaml.safe_load(text) for key, text in described.sources.items()}


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    _write(path, "".join(json.dumps(one, ensure_ascii=False, default=str) + "\n" for one in rows))
    return path.name


def _write(path: Path, text: str) -> Path:
    """Write a file unless it has this content: a new modification time means changed documents."""
    if not path.is_file() or path.read_text("utf-8") != text:
        with atomic_write(path) as new:
            new.write_text(text, encoding="utf-8")
    return path

"""`ra.evaluate`: a system, or answers that are there already, measured as a study."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_assay.evals.question_sets.question_files import yaml_text
from rag_assay.evals.question_sets.readers.file_rows import file_rows
from rag_assay.evals.question_sets.readers.records import (
    NAMES,
    RAGAS,
    cells_of,
    is_empty,
    is_ragas,
    listed,
    stable_id,
)
from rag_assay.evals.study.consistency import judges_of
from rag_assay.evals.study.registry import JUDGES, SYSTEMS
from rag_assay.evals.systems.given_passages import UnreadableError, read_passage, read_passages
from rag_assay.evals.systems.http_system import spec_of_url
from rag_assay.evals.systems.live_objects import hold
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import NAME_PATTERN, NAME_RULE

ANSWERS = ("response", "answer")
CONTEXTS = ("retrieved_contexts", "passages", "contexts")
_NAMING = {**RAGAS, **{name: name for name in NAMES}}
_TEXT_FILES = (".yaml", ".yml", ".txt", ".txt.gz")


class GivenQuestions(NamedTuple):
    """questions: as lines of a question file
    answers: as lines of a file of recorded answers, of those that have any
    """

    questions: list[dict[str, Any]]
    answers: list[dict[str, Any]]


def is_question_file(given: object) -> bool:
    if not isinstance(given, str | Path):
        return False
    return Path(given).name.lower().endswith(_TEXT_FILES)


def question_rows(given: object) -> GivenQuestions:
    """Return the questions and answers of texts, mappings, a table, a dataset of ragas, or a file."""
    questions: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    seen: Counter[str] = Counter()
    is_strict = isinstance(given, list | tuple)
    for place, row in _rows(given):
        cells = _question(place, row, is_strict=is_strict)
        try:
            name = stable_id(cells.get("id"), str(cells["question"]), cells.get("conversation") or [])
        except ValueError as error:
            raise InputError(f"questions: {place}: {error}") from error
        seen[name] += 1
        if seen[name] > 1:
            if "id" in cells:
                raise InputError(f"questions: {place}: a second question with the id {name}")
            name = f"{name}-{seen[name]}"
        questions.append({**cells, "id": name})
        if recorded := _answer(place, row):
            answers.append({"id": name, **recorded})
    if not questions:
        raise InputError("questions: there is none")
    return GivenQuestions(questions, answers)


def document_rows(given: object) -> list[dict[str, Any]]:
    """Return the documents of texts, mappings, a table, or documents of LangChain and LlamaIndex."""
    found = []
    for place, row in _rows(given, "documents"):
        try:
            one = read_passage(row)
        except UnreadableError as error:
            raise InputError(f"documents: {place}: {error}") from error
        if not one.text.strip():
            raise InputError(f"documents: {place}: it has no text")
        found.append({"text": one.text, "title": one.title, "url": one.url or one.document})
    if not found:
        raise InputError("documents: there is none")
    return found


def _rows(given: Any, what: str = "questions") -> Iterator[tuple[str, Any]]:
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        if not path.exists():
            raise InputError(f"{what}: there is no file {str(path)!r}")
        yield from file_rows(path)
        return
    yield from ((f"item {number}", one) for number, one in enumerate(_items(given, what), 1))


def _items(given: Any, what: str) -> Iterable[Any]:
    if isinstance(given, Mapping):
        hint = f"give one split: {', '.join(map(str, given))}" if given else "it is empty"
        raise InputError(f"{what}: a mapping is not a list of {what}; {hint}")
    if callable(getattr(given, "to_dicts", None)):  # polars
        return given.to_dicts()
    if callable(getattr(given, "iterrows", None)):  # pandas
        return given.to_dict("records")
    if callable(getattr(given, "to_list", None)) and hasattr(given, "samples"):  # ragas
        return given.to_list()
    if isinstance(given, Iterable):  # a list, or a Hugging Face dataset
        return given
    raise InputError(f"{what}: expected a list, a table or a file, not {type(given).__name__}")


def _question(place: str, row: Any, *, is_strict: bool) -> dict[str, Any]:
    if isinstance(row, str):
        row = {"question": row}
    if not isinstance(row, Mapping):
        raise InputError(f"questions: {place}: expected a text or a mapping, not {type(row).__name__}")
    told = {str(name): value for name, value in row.items() if not is_empty(value)}
    has_answer = any(name in told for name in (*ANSWERS, "retrieved_contexts"))
    naming = {name: ours for name, ours in _NAMING.items() if not (has_answer and name == "contexts")}
    if is_strict and not is_ragas([*told]):
        known = {*naming, *ANSWERS, *CONTEXTS}
        for name in told.keys() - known:
            if not name.startswith("_"):
                hint = did_you_mean(name, sorted(known))
                raise InputError(f"questions: {place}: unknown key {name!r}; {hint}")
    cells = cells_of(told, naming)
    if not isinstance(cells.get("question"), str):
        is_turns = isinstance(cells.get("question"), list)
        what = "its `user_input` is a conversation of several turns; give its last question, and the turns "
        what = what + "before as `conversation`" if is_turns else "it has no `question` (or `user_input`)"
        raise InputError(f"questions: {place}: {what}")
    return _with_evidence(cells)


def _with_evidence(cells: dict[str, Any]) -> dict[str, Any]:
    contexts, ids = (_as_list(cells.pop(name, None)) for name in ("contexts", "context_ids"))
    pages = ids if len(ids) == len(contexts) else [None] * len(contexts)
    evidence = [
        {"quote": text, **({} if page is None else {"url": str(page)})}
        for text, page in dict(zip(contexts, pages, strict=True)).items()
    ]
    evidence += [] if contexts else [{"url": str(page)} for page in ids]
    given = [*_as_list(cells.get("evidence")), *evidence]
    truths = cells.pop("truths", None)
    if truths is not None:
        cells.setdefault("ground_truth", _as_list(truths)[0])
    return {**cells, "evidence": given} if given else cells


def _answer(place: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        return {}
    found: dict[str, Any] = {}
    told = {name: row[name] for name in (*ANSWERS, *CONTEXTS) if name in row and row[name] is not None}
    text = next((told[name] for name in ANSWERS if name in told), None)
    contexts = next((told[name] for name in CONTEXTS if name in told), None)
    if text is not None:
        found["answer"] = str(text)
    if contexts is not None and (text is not None or "contexts" not in told):
        try:
            passages = read_passages(_as_list(contexts))
        except UnreadableError as error:
            raise InputError(f"questions: {place}: {error}") from error
        found["passages"] = [
            {name: value for name, value in one._asdict().items() if value is not None} for one in passages
        ]
    return found


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [value]
    try:
        return listed(value.tolist() if hasattr(value, "tolist") else value)
    except ValueError:
        return [value]


SYSTEM = "system"
"""The name of a system that is given without one."""
HEADING = "What `ra.evaluate` measured; it is written again by the next call with this name."
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
OF_ANSWERS = ("semantic_similarity", "rouge_l")
OF_RANKINGS = ("evidence_coverage@2000tokens", "ndcg@10")


class Evaluation(NamedTuple):
    """What `ra.evaluate` was given beside rows; system: None: the questions' answers are measured."""

    name: str
    system: Any
    metrics: Sequence[str] | None
    judges: Mapping[str, Any] | Iterable[str] | None
    version: str | None
    max_usd: float | None


def write_evaluation(given: Evaluation, questions: object, documents: object, home: Home) -> Path:
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
        specs = [system, *(one for one in system.values() if isinstance(one, Mapping))]
        return {**system, **({} if any("version" in one for one in specs) else version)}
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

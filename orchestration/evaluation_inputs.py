"""Turns what a script has into rows: questions with their answers, and documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
from rag_assay.evals.systems.given_passages import UnreadableError, read_passage, read_passages
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.suggestions import did_you_mean

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
    """Return whether questions are a file of a form that only a study reads, such as YAML."""
    if not isinstance(given, str | Path):
        return False
    return Path(given).name.lower().endswith(_TEXT_FILES)


def question_rows(given: object) -> GivenQuestions:
    """Return the questions and answers of texts, mappings, a table, a dataset of ragas, or a file.

    Raises:
        InputError: a row is no question; the message names it.
    """
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
    """Return the documents of texts, mappings, a table, or documents of LangChain and LlamaIndex.

    Raises:
        InputError: a row is no document; the message names it.
    """
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
    """Return the cells of a question with its reference contexts as evidence."""
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

"""Makes rows of questions out of the records of any file: checked, with stable ids, all mistakes at once."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from pydantic import ValidationError

from rag_assay.evals.question_sets.question_files import JUDGED_ALONE, WrittenQuestion, row_of
from rag_assay.evals.question_sets.readers.contract import MAX_ROWS, QuestionRecord, Row, SetFile
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import in_words

MAX_CELL = 1_000_000  # characters
_TRUE, _FALSE = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})


def is_empty(value: Any) -> bool:
    """Return whether a cell holds nothing: None, blanks, NaN, an empty list."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list | tuple | dict) and not value)


def plain_text(value: Any) -> str:
    if isinstance(value, list) and value:
        value = value[0]  # `ground_truths` and `generation_gt`: the first of several right answers
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be text, not {type(value).__name__}")  # noqa: TRY004 -- wrong input, as others
    text = str(value)
    if len(text) > MAX_CELL:
        raise ValueError(f"longer than {MAX_CELL:,} characters")
    return text.strip()


def finite_number(value: object) -> float | None:
    """Return a number, or that of a text; None: it is none, or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def truth_value(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"must be true or false, not {str(value)[:40]!r}")
    return word in _TRUE


def whole(value: Any) -> int:
    number = finite_number(value)
    if number is None or not number.is_integer() or abs(number) > 1e12:
        raise ValueError(f"must be a whole number, not {str(value)[:40]!r}")
    return int(number)


def day(value: Any) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, date) else plain_text(value)[:10]


def listed(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str) and len(value) <= MAX_CELL and value.lstrip().startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(found, list):
                return found
    raise ValueError('must be a list, as in ["a", "b"]')


MOST_TOLD = 100  # mistakes of a file
_ID = re.compile(r"[A-Za-z0-9._-]+")
_NO_ID = frozenset({"nan", "none", "null", "na", "n/a", "<na>", "nat"})
_CELLS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("type", "language", "question", "ground_truth", "needs"), plain_text),
    "answerable": truth_value,
    **dict.fromkeys(("asked_at", "time_from", "time_to"), day),
    **dict.fromkeys(("conversation", "contexts", "context_ids", "evidence"), listed),
    **dict.fromkeys(("url", "source", "quote"), plain_text),
    **dict.fromkeys(("grade", "start", "end"), whole),
    "truths": lambda value: plain_text(listed(value)),  # several right answers, of which the first counts
}
NAMES = ("id", *(name for name in _CELLS if name != "truths"))
"""The columns of a table of questions, and the keys of a line of JSON."""

_OF_EVIDENCE = ("url", "source", "quote", "grade", "start", "end")
_OF_QUESTION = ("type", "question", "ground_truth", "needs", "answerable", "asked_at", "conversation")


def rows_of(records: Iterable[QuestionRecord], file: SetFile) -> list[Row]:
    """Return rows of `schemas.QUESTIONS`; records with the same id and question are joined."""
    rows: dict[str, tuple[str, Row]] = {}
    mistakes: list[str] = []
    for number, record in enumerate(records, start=1):
        if number > MAX_ROWS:
            raise InputError(f"{file.path}: more than {MAX_ROWS:,} questions; split it into several files")
        found, row = _checked(record, file)
        mistakes += [_mistake(file, record.place, text) for text in found]
        if row is not None:
            mistakes += [_mistake(file, record.place, text) for text in _added(rows, record, row)]
        if len(mistakes) > MOST_TOLD:
            mistakes[MOST_TOLD:] = [f"{file.path}: and more mistakes, from row {number} on; fix these first"]
            break
    if mistakes:
        raise InputError(*mistakes)
    if not rows:
        raise InputError(f"{file.path}: there is no question in it")
    return [row for _, row in rows.values()]


def _mistake(file: SetFile, place: str, text: str) -> str:
    line = int(place) if place.isdecimal() else None
    return Mistake("bad_question", file.path, line, text) if line else f"{file.path}: {place}: {text}"


def _added(rows: dict[str, tuple[str, Row]], record: QuestionRecord, row: Row) -> list[str]:
    name = row["question_id"]
    if name not in rows:
        rows[name] = (record.place, row)
        return []
    place, first = rows[name]
    has_id = "id" in record.cells
    new = [item for item in row["evidence"] if item not in first["evidence"]]
    if first["question"] != row["question"]:
        return [f"a second question with the id {name}; the first one stands at {place}"]
    if not new or not has_id:
        return [f"the same question stands at {place} already; take one of them out, or give both an id"]
    first["evidence"] += new
    first["gold"] = "spans" if any(item.get("quote") for item in first["evidence"]) else "documents"
    return []


def _checked(record: QuestionRecord, file: SetFile) -> tuple[list[str], Row | None]:
    if record.unreadable:
        return [record.unreadable], None
    cells: dict[str, Any] = {}
    mistakes: list[str] = []
    for name, value in record.cells.items():
        try:
            cells[name] = value if name == "id" else _CELLS[name](value)
        except ValueError as error:
            mistakes.append(f"{name}: {error}")
    try:
        cells["id"] = stable_id(cells.get("id"), cells.get("question") or "", cells.get("conversation") or [])
    except ValueError as error:
        mistakes.append(f"id: {error}")
    if mistakes:
        return mistakes, None
    cells.setdefault("ground_truth", cells.get("truths"))
    try:
        context = {JUDGED_ALONE: file.judged_alone}
        question = WrittenQuestion.model_validate(_written(cells), context=context)
    except ValidationError as error:
        return [one.text for one in in_words(error, WrittenQuestion)], None
    row = row_of(question, file.name, file.language, file.asked_at)
    hints = {one["quote"]: one["url"] for one in _contexts(cells) if one.get("url")}
    row["evidence"] = [_hinted(item, hints) for item in row["evidence"]]
    return [], row


def _written(cells: Mapping[str, Any]) -> dict[str, Any]:
    evidence = [*(cells.get("evidence") or ()), *({"quote": one["quote"]} for one in _contexts(cells))]
    own = {name: cells[name] for name in _OF_EVIDENCE if cells.get(name) is not None}
    if own:
        evidence.append(own)
    if not cells.get("contexts"):
        evidence += [{"url": str(one)} for one in cells.get("context_ids") or ()]
    frame = {key: cells.get(name) for key, name in (("from", "time_from"), ("to", "time_to"))}
    written = {"id": cells["id"], "evidence": evidence}
    written |= {name: cells[name] for name in (*_OF_QUESTION, "language") if cells.get(name) is not None}
    if any(frame.values()):
        written["time_frame"] = {key: value for key, value in frame.items() if value}
    return written


def _contexts(cells: Mapping[str, Any]) -> list[dict[str, Any]]:
    contexts = list(dict.fromkeys(one for one in cells.get("contexts") or () if str(one).strip()))
    ids = cells.get("context_ids") or ()
    pages = [str(one) for one in ids] if len(ids) == len(contexts) else [None] * len(contexts)
    return [{"quote": text, "url": page} for text, page in zip(contexts, pages, strict=True)]


def _hinted(item: Row, hints: Mapping[Any, Any]) -> Row:
    if item["url"] is not None or item["quote"] not in hints:
        return item
    return {**item, "url": hints[item["quote"]], "anywhere": True}


def stable_id(given: Any, question: str, conversation: list[Any]) -> str:
    """Return the id of a question, whatever its file calls it; ValueError: what is given is none.

    >>> stable_id(12.0, "", []), stable_id("a/b c", "", []), stable_id(None, "Who?", [])
    ('12', 'a-b-c-900ceff5', 'q-f78c0e8a39')
    """
    if given is None:
        return f"q-{digest([question, conversation] if conversation else question)[:10]}"
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError(f"must be text or a number, not {type(given).__name__}")  # noqa: TRY004 -- as others
    if isinstance(given, float):
        if not math.isfinite(given):
            raise ValueError(f"{given} is not an id; give every question one, or none")
        given = int(given) if given.is_integer() else given
    text = str(given).strip()
    if not text or text.lower() in _NO_ID:
        raise ValueError(f"{text!r} is not an id; give every question one, or none")
    if _ID.fullmatch(text) and len(text) <= 200:
        return text
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:60].strip("-")
    return f"{plain or 'q'}-{digest(text)[:8]}"


_SHARED = {name: name for name in ("type", "language", "answerable", "needs", "asked_at")}
RAGAS: Mapping[str, str] = {
    **{"question_id": "id", "id": "id", "user_input": "question", "question": "question"},
    **{"reference": "ground_truth", "ground_truth": "ground_truth", "ground_truths": "truths"},
    **{"reference_contexts": "contexts", "contexts": "contexts", "reference_context_ids": "context_ids"},
    **_SHARED,
}
"""Columns of a ragas data set -> ours: those of today, and those of versions before 0.2."""

_ANSWERED = frozenset({"answer", "response", "retrieved_contexts"})


def naming_of(columns: Sequence[str], form: str | None, place: str) -> Mapping[str, str]:
    """Return column -> our name of it, without `_…` and others of ragas."""
    doubled = sorted({name for name in columns if columns.count(name) > 1})
    if doubled:
        raise InputError(f"{place}: more than one column {doubled[0]!r}")
    if form == "ragas" or (form is None and is_ragas(columns)):
        known = {name: RAGAS[name] for name in columns if name in RAGAS}
        if not {"reference_contexts"} & known.keys() and _ANSWERED & set(columns):
            known.pop("contexts", None)
        found: dict[str, str] = {}
        for name in RAGAS:  # in the order of preference
            if name in known and known[name] not in found.values():
                found[name] = known[name]
        if "question" not in found.values():
            raise InputError(f"{place}: no column 'user_input' or 'question': not a ragas data set?")
        return found
    findings = [
        f"{place}: unknown column {name!r}; {did_you_mean(name, NAMES)}; "
        "begin its name with `_` to pass it over"
        for name in columns
        if name not in NAMES and name and not name.startswith("_")
    ]
    if "question" not in columns:
        findings.append(f"{place}: no column 'question'; there are {', '.join(columns[:20]) or 'none'}")
    if findings:
        raise InputError(*findings)
    return {name: name for name in columns if name in NAMES}


def is_ragas(columns: Sequence[str]) -> bool:
    names = set(columns)
    return "user_input" in names or ("question" in names and bool(names & {"contexts", "ground_truths"}))


def cells_of(row: Mapping[str, Any], naming: Mapping[str, str]) -> dict[str, Any]:
    named = {naming[name]: value for name, value in row.items() if name in naming}
    return {
        name: value
        for name, value in named.items()
        if not is_empty(value) or (name == "id" and isinstance(value, float))
    }

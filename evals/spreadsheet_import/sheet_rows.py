"""Makes rows of answers and scores out of the rows of a spreadsheet, one by one, each checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any

from rag_assay.evals.question_sets.question_files import EMPTY, is_empty
from rag_assay.evals.question_sets.readers.records import MAX_CELL, stable_id
from rag_assay.evals.rubrics.rubric import Criterion
from rag_assay.evals.spreadsheet_import.key_names import (
    NO_ITEM,
    chosen,
    is_missing,
    key_name,
    looks_listed,
    read_literal,
    said,
    value_of,
)
from rag_assay.evals.spreadsheet_import.mapping import (
    AXES,
    UNNAMED,
    UNSAID,
    Axis,
    ReadMapping,
    ScoreColumn,
    anchors_of,
)
from rag_assay.evals.spreadsheet_import.tables import display_value, fold_name, usable
from rag_assay.warehouse.encodable import encodable

Scored = tuple[str, str | None]
"""Rubric and criterion."""
_TEXTS = ("page_content", "text", "content", "passage")  # keys of a passage that is more than its text
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d{1,2}")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")


@dataclass(frozen=True)
class ParsedRow:
    """A row of a spreadsheet that can be used for itself.

    names: axis -> name, as keys can hold it
    words: axis -> what the spreadsheet says for it
    """

    line: int
    question_id: str
    question: str
    language: str | None
    ground_truth: str | None
    answer: str | None
    contexts: tuple[str, ...]
    names: Mapping[str, str]
    words: Mapping[str, str]
    annotator: str
    scores: Mapping[Scored, float]
    comment: str | None
    scored_at: datetime | None

    @property
    def place(self) -> tuple[str, ...]:
        """Its cell and question."""
        return (*(self.names[axis] for axis in AXES), self.question_id)

    @property
    def content(self) -> tuple[str | None, tuple[str, ...]]:
        """What was scored."""
        return self.answer, self.contexts


class RowReader:
    """Reads the rows of one spreadsheet by its mapping."""

    def __init__(self, read: ReadMapping) -> None:
        self._read = read
        self._mapping = read.mapping
        columns = read.mapping.columns.model_dump()
        self._columns = {name: fold_name(column) for name, column in columns.items() if column}
        self._axes = read.mapping.axes()
        self._contexts = lru_cache(maxsize=4096)(_contexts)
        self._wanted = [fold_name(name) for name in read.mapping.wanted()]
        self._names: dict[tuple[str, str], tuple[str, str]] = {}
        self.words: dict[str, dict[str, dict[str, int]]] = {axis: {} for axis in AXES}
        """Axis -> name -> what the spreadsheet says for it -> the first line that does."""

    def is_empty(self, row: Mapping[str, Any]) -> bool:
        return all(is_missing(row.get(name)) for name in self._wanted)

    def draft(self, line: int, row: Mapping[str, Any]) -> ParsedRow | list[str]:
        """Return a row of the spreadsheet, or all that is wrong with it."""
        wrong: list[str] = []
        text = {
            name: self._text(row, name, wrong)
            for name in self._columns
            if name not in ("contexts", "scored_at")
        }
        question = text.get("question")
        if question is None and not any(one.startswith("question:") for one in wrong):
            wrong.append("no question")
        if question is not None and is_empty(question):
            wrong.append(f"question: {EMPTY}, not {display_value(question)}")
        contexts = self._tried(wrong, "contexts", row, self._contexts_of) or ()
        scored_at = self._tried(wrong, "scored_at", row, _moment)
        names, words = self._cell(line, row, wrong)
        scores = self._scores(row, wrong)
        answer = text["answer"]
        if answer is None and scores and not any(one.startswith("answer:") for one in wrong):
            if self._mapping.empty_answers == "reject":
                wrong.append(
                    "no answer, but a score; where an empty cell means that the model wrote nothing, say "
                    "`empty_answers: keep` in the mapping"
                )
            answer = ""
        question_id = self._question_id(text.get("question_id"), question, wrong)
        if wrong:
            return wrong
        return ParsedRow(
            line=line,
            question_id=question_id,
            question=question or "",
            language=text.get("language") or self._mapping.language,
            ground_truth=text.get("ground_truth"),
            answer=answer,
            contexts=contexts,
            names=names,
            words=words,
            annotator=text.get("annotator") or self._mapping.annotator or UNNAMED,
            scores=scores,
            comment=text.get("comment"),
            scored_at=scored_at,
        )

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        return row.get(self._columns[name])

    def _text(self, row: Mapping[str, Any], name: str, wrong: list[str]) -> str | None:
        try:
            return _plain(self._value(row, name))
        except ValueError as error:
            wrong.append(f"{name}: {error}")
            return None

    def _tried(self, wrong: list[str], name: str, row: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
        if name not in self._columns:
            return None
        try:
            return read(self._value(row, name))
        except ValueError as error:
            wrong.append(f"{name}: {error}")
            return None

    def _contexts_of(self, value: Any) -> tuple[str, ...]:
        if is_missing(value):
            return ()
        return self._contexts(value) if isinstance(value, str) else _contexts(value)

    def _question_id(self, given: str | None, question: str | None, wrong: list[str]) -> str:
        try:
            return stable_id(given, question or "", [])
        except ValueError as error:
            wrong.append(f"question_id: {error}")
            return ""

    def _cell(
        self, line: int, row: Mapping[str, Any], wrong: list[str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        names = dict.fromkeys(AXES, UNSAID)
        words: dict[str, str] = {}
        for axis, recipe in self._axes:
            try:
                names[axis], words[axis] = self._named(axis, recipe, row)
            except ValueError as error:
                wrong.append(f"{axis}: {error}")
                continue
            if axis == "generator" and names[axis] == NO_ITEM:
                wrong.append(
                    f"generator: the name `{NO_ITEM}` is kept; give another one by `values` or `empty`"
                )
            by_name = self.words[axis].setdefault(names[axis], {})
            if not (recipe.name or chosen(recipe.values, words[axis])):
                by_name.setdefault(words[axis], line)
        return names, words

    def _named(self, axis: str, recipe: Axis, row: Mapping[str, Any]) -> tuple[str, str]:
        cell = row.get(fold_name(recipe.column)) if recipe.column else None
        if not isinstance(cell, str):
            return _name(recipe, cell)
        if (axis, cell) not in self._names:
            self._names[axis, cell] = _name(recipe, cell)
        return self._names[axis, cell]

    def _scores(self, row: Mapping[str, Any], wrong: list[str]) -> dict[Scored, float]:
        found: dict[Scored, float] = {}
        columns = self._mapping.scores
        for (key, criterion), (name, column) in zip(
            self._read.criteria.items(), columns.items(), strict=True
        ):
            try:
                value = score_of(row.get(fold_name(column.column)), column, criterion)
            except ValueError as error:
                wrong.append(f"{name}: {error}")
                continue
            if value is not None:
                found[key] = value
        return found


def score_of(cell: Any, column: ScoreColumn, criterion: Criterion) -> float | None:
    """Return the value that a cell of scores has; None: no score."""
    cell = usable(cell)
    if not isinstance(cell, float) and is_missing(cell):
        return None
    word = said(cell).casefold()
    for words, value in column.values.items():
        if words.strip().casefold() == word:
            return float(value)
    value = _number(cell)
    if value not in criterion.anchors:
        raise ValueError(f"{display_value(cell)} is no value of the rubric; it has {anchors_of(criterion)}")
    return value


def _number(cell: Any) -> float:
    if isinstance(cell, datetime | date | time | timedelta):
        raise ValueError(  # noqa: TRY004 -- what a person wrote
            f"a date ({cell}), no score; Excel makes dates of 3.5 or 1/2: give the column the format text, "
            "and enter the score again"
        )
    text = str(cell).strip()
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise ValueError(f"{display_value(cell)} is no number; say what it is worth by `values`")  # noqa: TRY004
    if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if isinstance(cell, str) and not _NUMBER.fullmatch(text):
        raise ValueError(f"{display_value(cell)} is no number; say what it is worth by `values`")
    try:
        value = float(text)
    except (ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{display_value(text)} is no number; leave the cell empty where there is no score")
    return value


def _plain(value: Any) -> str | None:
    """Return a cell as text without white space around it; None where it is empty."""
    value = usable(value)
    if is_missing(value):
        return None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # `ground_truths`: one right answer
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be text, not {display_value(value)}")  # noqa: TRY004 -- what a person wrote
    text = str(value)
    if len(text) > MAX_CELL:
        raise ValueError(f"longer than {MAX_CELL:,} characters")
    return encodable(text.strip().replace("\r\n", "\n")) or None


def _contexts(value: Any) -> tuple[str, ...]:
    """Return passages: a list of texts, or of objects with a text; a text that is no list is one passage."""
    value = usable(value)
    if isinstance(value, str):
        if len(value) > MAX_CELL:
            raise ValueError(f"longer than {MAX_CELL:,} characters")
        is_list = looks_listed(value) or re.match(r"\s*\[\s*(?:['\"{]|Document\()", value) is not None
        value = read_literal(value) if is_list else [value.strip().replace("\r\n", "\n")]
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of texts, not {display_value(value)}")  # noqa: TRY004 -- what a person wrote
    return tuple(encodable(_passage(one, number)) for number, one in enumerate(value, start=1))


def _passage(value: Any, number: int) -> str:
    if isinstance(value, Mapping):
        value = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), value)
    if not isinstance(value, str):
        raise ValueError(f"item {number} must be a text, not {display_value(value)}")  # noqa: TRY004 -- what a person wrote
    return value


def _name(recipe: Axis, cell: Any) -> tuple[str, str]:
    if recipe.name is not None:
        return recipe.name, recipe.name
    value = value_of(usable(cell))
    words = "" if is_missing(value) else encodable(said(value))
    named = chosen(recipe.values, value if words else "")
    if named is None and (not words or (isinstance(value, list | tuple) and not value)):
        named = recipe.empty
        if named is None and not words:
            raise ValueError("the cell is empty; say what that is called by `empty`")
    return named or key_name(value), words


def _moment(value: Any) -> datetime | None:
    """Return when a row was scored; a time without a zone is of UTC."""
    value = usable(value)
    if is_missing(value):
        return None
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        found = value if isinstance(value, datetime) else datetime.combine(value, time())
    except (TypeError, ValueError):
        raise ValueError(f"{display_value(value)} is no date as in 2024-05-31 or 2024-05-31 14:30") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def fallen_together(reader: RowReader, file: str) -> Iterator[str]:
    """Yield where two things that a spreadsheet says have become one name."""
    for axis, by_name in reader.words.items():
        for name, words in by_name.items():
            if len(words) > 1:
                (one, line), (two, other) = list(words.items())[:2]
                yield (
                    f"{file}:{other}: {axis}: {display_value(two)} and {display_value(one)} (line {line}) "
                    "both become "
                    f"`{name}`; name them by `values` under `cell.{axis}`"
                )


def axes_text(draft: ParsedRow) -> str:
    """Return what the spreadsheet says for its axes as JSON."""
    return json.dumps(dict(draft.words), ensure_ascii=False, sort_keys=True)

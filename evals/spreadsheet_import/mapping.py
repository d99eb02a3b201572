"""What the columns of a spreadsheet mean: a YAML file, typed, with a line for every mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from rag_assay.assets.recipes.build_half import Name
from rag_assay.evals.question_sets.question_files import EMPTY, is_empty
from rag_assay.evals.question_sets.readers.records import MAX_CELL, finite_number, stable_id
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import AnyRubric, Criterion, Rubric
from rag_assay.evals.spreadsheet_import import tables
from rag_assay.evals.spreadsheet_import.bundle import AXES, UNSAID
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import Finding, in_words, lines_of
from rag_assay.warehouse.yaml_positions import Place, load

Scored = tuple[str, str | None]  # rubric and criterion
_TEXTS = ("page_content", "text", "content", "passage")  # keys of a passage that is more than its text
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d{1,2}")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")


@dataclass(frozen=True)
class ParsedRow:
    """A valid row; names: axis -> name for keys; words: axis -> text of the spreadsheet"""

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
        return (*(self.names[axis] for axis in AXES), self.question_id)

    @property
    def content(self) -> tuple[str | None, tuple[str, ...]]:
        return self.answer, self.contexts


class RowReader:
    """Reads the rows of one spreadsheet by its mapping."""

    def __init__(self, read: ReadMapping) -> None:
        self._read = read
        self._mapping = read.mapping
        columns = read.mapping.columns.model_dump()
        self._columns = {name: tables.fold_name(column) for name, column in columns.items() if column}
        self._axes = read.mapping.axes()
        self._contexts = lru_cache(maxsize=4096)(_contexts)
        self._wanted = [tables.fold_name(name) for name in read.mapping.wanted()]
        self._names: dict[tuple[str, str], tuple[str, str]] = {}
        self.words: dict[str, dict[str, dict[str, int]]] = {axis: {} for axis in AXES}
        """Axis -> name -> what the spreadsheet says for it -> the first line that does."""

    def is_empty(self, row: Mapping[str, Any]) -> bool:
        return all(tables.is_missing(row.get(name)) for name in self._wanted)

    def draft(self, line: int, row: Mapping[str, Any]) -> ParsedRow | list[str]:
        wrong: list[str] = []
        plain = self._columns.keys() - {"contexts", "scored_at"}
        text = {name: self._tried(wrong, name, row, _plain) for name in self._columns if name in plain}
        question = text.get("question")
        if question is None and not any(one.startswith("question:") for one in wrong):
            wrong.append("no question")
        if question is not None and is_empty(question):
            wrong.append(f"question: {EMPTY}, not {tables.display_value(question)}")
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
        try:
            question_id = stable_id(text.get("question_id"), question or "", [])
        except ValueError as error:
            wrong.append(f"question_id: {error}")
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

    def _tried(self, wrong: list[str], name: str, row: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
        if name not in self._columns:
            return None
        try:
            return read(row.get(self._columns[name]))
        except ValueError as error:
            wrong.append(f"{name}: {error}")
            return None

    def _contexts_of(self, value: Any) -> tuple[str, ...]:
        if tables.is_missing(value):
            return ()
        return self._contexts(value) if isinstance(value, str) else _contexts(value)

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
            if axis == "generator" and names[axis] == tables.NO_ITEM:
                wrong.append(
                    f"generator: the name `{tables.NO_ITEM}` is kept; give another one by `values` or `empty`"
                )
            by_name = self.words[axis].setdefault(names[axis], {})
            if not (recipe.name or tables.chosen(recipe.values, words[axis])):
                by_name.setdefault(words[axis], line)
        return names, words

    def _named(self, axis: str, recipe: Axis, row: Mapping[str, Any]) -> tuple[str, str]:
        cell = row.get(tables.fold_name(recipe.column)) if recipe.column else None
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
                value = score_of(row.get(tables.fold_name(column.column)), column, criterion)
            except ValueError as error:
                wrong.append(f"{name}: {error}")
                continue
            if value is not None:
                found[key] = value
        return found


def score_of(cell: Any, column: ScoreColumn, criterion: Criterion) -> float | None:
    cell = tables.usable(cell)
    if not isinstance(cell, float) and tables.is_missing(cell):
        return None
    word = tables.said(cell).casefold()
    for words, value in column.values.items():
        if words.strip().casefold() == word:
            return float(value)
    value = _number(cell)
    if value not in criterion.anchors:
        raise ValueError(
            f"{tables.display_value(cell)} is not a value of the rubric; it has {anchors_of(criterion)}"
        )
    return value


def _number(cell: Any) -> float:
    if isinstance(cell, datetime | date | time | timedelta):
        raise ValueError(  # noqa: TRY004 -- what a person wrote
            f"a date ({cell}), no score; Excel makes dates of 3.5 or 1/2: give the column the format text, "
            "and enter the score again"
        )
    text = str(cell).strip()
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise ValueError(f"{tables.display_value(cell)} is not a number; say what it is worth by `values`")  # noqa: TRY004
    if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if isinstance(cell, str) and not _NUMBER.fullmatch(text):
        raise ValueError(f"{tables.display_value(cell)} is not a number; say what it is worth by `values`")
    value = finite_number(text)
    if value is None:
        raise ValueError(
            f"{tables.display_value(text)} is not a number; leave the cell empty where there is no score"
        )
    return value


def _plain(value: Any) -> str | None:
    value = tables.usable(value)
    if tables.is_missing(value):
        return None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # `ground_truths`: one right answer
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be text, not {tables.display_value(value)}")  # noqa: TRY004 -- what a person wrote
    text = str(value)
    if len(text) > MAX_CELL:
        raise ValueError(f"longer than {MAX_CELL:,} characters")
    return encodable(text.strip().replace("\r\n", "\n")) or None


def _contexts(value: Any) -> tuple[str, ...]:
    value = tables.usable(value)
    if isinstance(value, str):
        if len(value) > MAX_CELL:
            raise ValueError(f"longer than {MAX_CELL:,} characters")
        is_list = tables.looks_listed(value) or re.match(r"\s*\[\s*(?:['\"{]|Document\()", value) is not None
        value = tables.read_literal(value) if is_list else [value.strip().replace("\r\n", "\n")]
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of texts, not {tables.display_value(value)}")  # noqa: TRY004 -- what a person wrote
    return tuple(encodable(_passage(one, number)) for number, one in enumerate(value, start=1))


def _passage(value: Any, number: int) -> str:
    if isinstance(value, Mapping):
        value = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), value)
    if not isinstance(value, str):
        raise ValueError(f"item {number} must be a text, not {tables.display_value(value)}")  # noqa: TRY004 -- what a person wrote
    return value


def _name(recipe: Axis, cell: Any) -> tuple[str, str]:
    if recipe.name is not None:
        return recipe.name, recipe.name
    value = tables.value_of(tables.usable(cell))
    words = "" if tables.is_missing(value) else encodable(tables.said(value))
    named = tables.chosen(recipe.values, value if words else "")
    if named is None and (not words or (isinstance(value, list | tuple) and not value)):
        named = recipe.empty
        if named is None and not words:
            raise ValueError("the cell is empty; say what that is called by `empty`")
    return named or tables.key_name(value), words


def _moment(value: Any) -> datetime | None:
    value = tables.usable(value)
    if tables.is_missing(value):
        return None
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        found = value if isinstance(value, datetime) else datetime.combine(value, time())
    except (TypeError, ValueError):
        raise ValueError(
            f"{tables.display_value(value)} is not a date as in 2024-05-31 or 2024-05-31 14:30"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def fallen_together(reader: RowReader, file: str) -> Iterator[str]:
    for axis, by_name in reader.words.items():
        for name, words in by_name.items():
            if len(words) > 1:
                (one, line), (two, other) = list(words.items())[:2]
                shown = f"{tables.display_value(two)} and {tables.display_value(one)} (line {line})"
                yield (
                    f"{file}:{other}: {axis}: {shown} both become `{name}`; "
                    f"name them by `values` under `cell.{axis}`"
                )


def axes_text(draft: ParsedRow) -> str:
    return json.dumps(dict(draft.words), ensure_ascii=False, sort_keys=True)


UNNAMED = "unnamed"  # name of an annotator that a spreadsheet does not name
Heading = Annotated[str, Field(min_length=1, max_length=300)]


class Columns(Strict):
    """Names of the spreadsheet's columns, white space and case aside.

    question_id: told by the question's text unless there is one
    contexts: the passages that the answer was made of, best first: a list, or a text that is one
    scored_at: the day or time at which the row was scored
    """

    question: Heading
    answer: Heading
    contexts: Heading | None = None
    ground_truth: Heading | None = None
    question_id: Heading | None = None
    language: Heading | None = None
    annotator: Heading | None = None
    comment: Heading | None = None
    scored_at: Heading | None = None


class Axis(Strict):
    """Where the name of an axis comes from; a study file's way to write a literal name is the name alone.

    name: of every row
    column: whose value makes the name of each row
    values: what the spreadsheet says -> name, where the one that is made of it will not do
    empty: name where the cell is empty, or holds an empty list; default for an empty list: `none`
    """

    name: Name | None = None
    column: Heading | None = None
    values: dict[str, Name] = Field(default_factory=dict)
    empty: Name | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.name is None) == (self.column is None):
            raise ValueError("give either a name, or the `column` that has it")
        return self


class Cells(Strict):
    """Which cell a row is of."""

    chunking: Axis | None = None
    embedder: Axis | None = None
    retriever: Axis | None = None
    generator: Axis

    @field_validator("*", mode="before")
    @classmethod
    def _takes_a_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class ScoreColumn(Strict):
    """A column of scores.

    values: words of the spreadsheet -> value
    """

    column: Heading
    values: dict[str, float] = Field(default_factory=dict)


class SheetMapping(Strict):
    """A mapping file.

    study: that the spreadsheet becomes, or is one of the spreadsheets of
    sheet: name of the spreadsheet in the study; default: that of the file
    worksheet: of a workbook with several
    language: of the questions, where no column says it
    cell: of which cell a row is; a study of answers of its own needs none: its items are told by their texts
    scores: rubric, or rubric.criterion -> column
    rubrics: by what was scored, as a study has them; default: the study's own, else points 5, 3, 0
    annotator: who scored, where no column says it
    empty_answers: `keep`: the model wrote nothing where a cell is empty; `reject`: its row is not taken
    """

    study: Name
    sheet: Name | None = None
    worksheet: Heading | None = None
    language: Annotated[str | None, Field(pattern="^[a-z]{2}$")] = None
    columns: Columns
    cell: Cells | None = None
    scores: Annotated[dict[str, ScoreColumn], Field(min_length=1)]
    rubrics: dict[Name, AnyRubric] = Field(default_factory=dict)
    annotator: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    empty_answers: Literal["keep", "reject"] = "reject"

    @field_validator("scores", mode="before")
    @classmethod
    def _takes_columns(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: {"column": one} if isinstance(one, str) else one for name, one in value.items()}

    def wanted(self) -> list[str]:
        named = [one for one in self.columns.model_dump().values() if one]
        of_axes = [axis.column for _, axis in self.axes() if axis.column]
        return list(dict.fromkeys([*named, *of_axes, *(one.column for one in self.scores.values())]))

    def axes(self) -> list[tuple[str, Axis]]:
        return [(name, axis) for name in AXES if (axis := getattr(self.cell, name, None))]

    @property
    def digest(self) -> str:
        return digest(self.model_dump(mode="json"))

    def criteria(self, rubrics: Mapping[str, Rubric]) -> dict[Scored, Criterion]:
        known = _criteria_of(rubrics)
        return {known[name][0]: known[name][1] for name in self.scores if name in known}

    def misfits(self, rubrics: Mapping[str, Rubric]) -> list[Finding]:
        found = []
        known = _criteria_of(rubrics)
        for name, column in self.scores.items():
            place: Place = ("scores", name)
            _, criterion = known.get(name, (None, None))
            if criterion is None:
                text = f"no rubric or criterion `{name}`; {did_you_mean(name, known)}; or add it to `rubrics`"
                found.append(Finding(place, "unknown_rubric", text))
                continue
            if rubrics[name.partition(".")[0]].compares:
                text = f"`{name}` compares two answers, and a row of a sheet has one; take another rubric"
                found.append(Finding(place, "compares", text))
            for words, value in column.values.items():
                if value not in criterion.anchors:
                    text = f"{words!r}: {value:g} is not a value of `{name}`; it has {anchors_of(criterion)}"
                    found.append(Finding((*place, "values", words), "no_anchor", text))
        return found


def _criteria_of(rubrics: Mapping[str, Rubric]) -> dict[str, tuple[Scored, Criterion]]:
    return {
        ".".join(filter(None, [name, one.name])): ((name, one.name), one)
        for name, rubric in rubrics.items()
        for one in rubric.criteria
    }


def anchors_of(criterion: Criterion) -> str:
    values = [f"{value:g}" for value in criterion.anchors]
    return f"{', '.join(values[:-1])} or {values[-1]}"


class ReadMapping:
    """A mapping with the rubrics of its study."""

    def __init__(self, path: Path, mapping: SheetMapping, rubrics: Mapping[str, Rubric]) -> None:
        self.path, self.mapping, self.rubrics = path, mapping, dict(rubrics)
        self.criteria = mapping.criteria(rubrics)


def read_mapping(path: Path) -> SheetMapping:
    marked = load(path)
    if not isinstance(marked.data, dict):
        raise InputError(
            Mistake("no_mapping", path, 1, "a mapping file is a mapping that begins with `study: NAME`")
        )
    findings: list[Finding] = []
    mapping = None
    try:
        mapping = SheetMapping.model_validate(marked.data)
        findings = _kept_names(mapping)
    except ValidationError as error:
        findings = in_words(error, SheetMapping)
    if findings or mapping is None:
        raise InputError(*lines_of(marked, findings))
    return mapping


def _kept_names(mapping: SheetMapping) -> list[Finding]:
    if mapping.cell is None:
        return []
    axis = mapping.cell.generator
    names = {("cell", "generator"): axis.name, ("cell", "generator", "empty"): axis.empty}
    names |= {("cell", "generator", "values", words): name for words, name in axis.values.items()}
    text = f"the name `{tables.NO_ITEM}` is kept for cells without a generator; choose another one"
    return [Finding(place, "kept_name", text) for place, name in names.items() if name == tables.NO_ITEM]


def with_rubrics(path: Path, mapping: SheetMapping, stored: Path) -> ReadMapping:
    known = _rubrics_of(stored) if stored.is_file() else {}
    findings = []
    for name, one in mapping.rubrics.items():
        if known and (name not in known or known[name].version != one.version):
            text = (
                f"the rubric `{name}` stands otherwise, or not at all, in {stored}: scores by two wordings "
                "are not mixed; word it there as here, or leave it out here"
            )
            findings.append(Finding(("rubrics", name), "other_rubric", text))
    rubrics = known or dict(mapping.rubrics) or {name: Points() for name in mapping.scores if "." not in name}
    findings += mapping.misfits(rubrics)
    if findings:
        raise InputError(*lines_of(load(path), findings))
    return ReadMapping(path, mapping, rubrics)


def _rubrics_of(path: Path) -> dict[str, Rubric]:
    class Rubrics(Strict):
        rubrics: dict[Name, AnyRubric] = Field(default_factory=dict)

    marked = load(path)
    data = marked.data if isinstance(marked.data, dict) else {}
    try:
        return Rubrics.model_validate({"rubrics": data.get("rubrics") or {}}).rubrics
    except ValidationError as error:
        raise InputError(*lines_of(marked, in_words(error, Rubrics))) from error

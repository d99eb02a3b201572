"""What the columns of a spreadsheet mean: a YAML file, typed, with a line for every mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from rag_assay.assets.recipes.build_half import Name
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import AnyRubric, Criterion, Rubric
from rag_assay.evals.spreadsheet_import.key_names import NO_ITEM
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import Finding, in_words, lines_of
from rag_assay.warehouse.yaml_positions import Place, load

AXES = ("chunking", "embedder", "retriever", "generator")
UNSAID = "-"
"""What an axis is called of which a spreadsheet says nothing."""
UNNAMED = "unnamed"
"""Name of an annotator that a spreadsheet does not name."""
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

    def axes(self) -> Iterator[tuple[str, Axis]]:
        """Yield the axes of which the mapping says anything, by name."""
        for name in AXES:
            axis = getattr(self, name)
            if axis is not None:
                yield name, axis


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
        """Return the names of all columns that it reads, each once."""
        named = [one for one in self.columns.model_dump().values() if one]
        of_axes = [axis.column for _, axis in self.axes() if axis.column]
        return list(dict.fromkeys([*named, *of_axes, *(one.column for one in self.scores.values())]))

    def axes(self) -> list[tuple[str, Axis]]:
        """Return the axes of which it says anything, by name."""
        return list(self.cell.axes()) if self.cell else []

    @property
    def digest(self) -> str:
        """Digest of what it says, however it is written."""
        return digest(self.model_dump(mode="json"))

    def criteria(self, rubrics: Mapping[str, Rubric]) -> dict[tuple[str, str | None], Criterion]:
        found: dict[tuple[str, str | None], Criterion] = {}
        for name in self.scores:
            key, criterion = self._criterion(name, rubrics)
            if criterion is not None:
                found[key] = criterion
        return found

    @staticmethod
    def _criterion(
        name: str, rubrics: Mapping[str, Rubric]
    ) -> tuple[tuple[str, str | None], Criterion | None]:
        rubric, _, part = name.partition(".")
        key = (rubric, part or None)
        has = rubrics[rubric].criteria if rubric in rubrics else ()
        return key, next((one for one in has if one.name == key[1]), None)

    def misfits(self, rubrics: Mapping[str, Rubric]) -> list[Finding]:
        """Return where columns of scores do not fit the rubrics of the study."""
        found = []
        names = [
            ".".join(filter(None, [name, one.name]))
            for name, made in rubrics.items()
            for one in made.criteria
        ]
        for name, column in self.scores.items():
            place: Place = ("scores", name)
            _, criterion = self._criterion(name, rubrics)
            if criterion is None:
                text = f"no rubric or criterion `{name}`; {did_you_mean(name, names)}; or add it to `rubrics`"
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


def anchors_of(criterion: Criterion) -> str:
    """Return the values of a criterion in words: `5, 3 or 0`."""
    values = [f"{value:g}" for value in criterion.anchors]
    return f"{', '.join(values[:-1])} or {values[-1]}"


class ReadMapping:
    """A mapping as its file says it, with the rubrics of its study."""

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
    text = f"the name `{NO_ITEM}` is kept for cells without a generator; choose another one"
    return [Finding(place, "kept_name", text) for place, name in names.items() if name == NO_ITEM]


def with_rubrics(path: Path, mapping: SheetMapping, stored: Path) -> ReadMapping:
    """Return a mapping with the rubrics that its scores are by: those of the study, those it brings itself.

    Args:
        stored: the file of the study, which may not be there yet; its rubrics count before the mapping's.
    """
    known = _rubrics_of(stored) if stored.is_file() else {}
    findings = [
        Finding(("rubrics", name), "other_rubric", _otherwise(name, stored))
        for name, one in mapping.rubrics.items()
        if known and (name not in known or known[name].version != one.version)
    ]
    rubrics = known or dict(mapping.rubrics) or {name: Points() for name in mapping.scores if "." not in name}
    findings += mapping.misfits(rubrics)
    if findings:
        raise InputError(*lines_of(load(path), findings))
    return ReadMapping(path, mapping, rubrics)


def _otherwise(name: str, stored: Path) -> str:
    return (
        f"the rubric `{name}` stands otherwise, or not at all, in {stored}: scores by two wordings are not "
        "mixed; word it there as here, or leave it out here"
    )


def _rubrics_of(path: Path) -> dict[str, Rubric]:
    """Return the rubrics of a study file; what else is wrong with it is told when it is run."""

    class Rubrics(Strict):
        rubrics: dict[Name, AnyRubric] = Field(default_factory=dict)

    marked = load(path)
    data = marked.data if isinstance(marked.data, dict) else {}
    try:
        return Rubrics.model_validate({"rubrics": data.get("rubrics") or {}}).rubrics
    except ValidationError as error:
        raise InputError(*lines_of(marked, in_words(error, Rubrics))) from error

"""The JSON that a model judges criteria by, and the values that it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from rag_assay.evals.judging.loose_verdicts import grade_within, mending, met_within
from rag_assay.evals.judging.structured_calls import ReplySchema
from rag_assay.warehouse.inference.structured import schema_only
from rag_assay.warehouse.recipe import Strict

LONGEST_REASON = 400  # characters of a reason, which the model is told
TOKENS = 300  # of one verdict
MORE_TOKENS = 150  # of each further one

Reason = Annotated[str, schema_only(maxLength=LONGEST_REASON)]
Name = Annotated[str, schema_only(maxLength=40)]


class _Loose(Strict):
    """What a model wrote beside is left out."""

    model_config = ConfigDict(extra="ignore")


class Grade(_Loose):
    """A verdict on a scale from 1."""

    reason: Reason = ""
    grade: int


class Met(_Loose):
    """A verdict of two kinds."""

    reason: Reason = ""
    met: bool


class NamedGrade(_Loose):
    """A grade by one of several criteria."""

    criterion: Name
    reason: Reason = ""
    grade: int


class NamedMet(_Loose):
    """A verdict of two kinds by one of several criteria."""

    criterion: Name
    reason: Reason = ""
    met: bool


class Grades(_Loose):
    """Grades by several criteria."""

    verdicts: Annotated[tuple[NamedGrade, ...], schema_only(maxItems=60)]


class Mets(_Loose):
    """Verdicts of two kinds by several criteria."""

    verdicts: Annotated[tuple[NamedMet, ...], schema_only(maxItems=60)]


class CriterionVerdict(NamedTuple):
    """What the model says of one criterion.

    value: from 0 to 1
    word: as it said it: `4 of 5`, `met`
    """

    value: float
    word: str
    reason: str


def tokens_of(criteria: int) -> int:
    """Return how many tokens the verdicts by so many criteria have at most, in one reply."""
    return TOKENS + MORE_TOKENS * (criteria - 1)


def reply_schema(names: Sequence[str], grades: int | None, *, together: bool) -> ReplySchema:
    """Return the JSON that a model is to write.

    names: of the criteria
    grades: how many there are; None: met or not
    together: a list of verdicts, each with its criterion
    """
    tokens = tokens_of(len(names) if together else 1)

    def said(text: str) -> Mapping[str, Any] | None:
        """Return the one verdict that the words of a reply hold; of several criteria, none is sure."""
        if grades is None:
            met = met_within(text)
            return None if met is None else {"met": met}
        grade = grade_within(text, grades)
        return None if grade is None else {"grade": grade}

    def check(found: BaseModel) -> None:
        _check(found, names, grades)

    of_grade: dict[str, object] = {"minimum": 1, "maximum": grades}
    if not together:
        shape: type[BaseModel] = Met if grades is None else Grade
        bounds = {} if grades is None else {"Grade.grade": of_grade}
        return ReplySchema(shape, shape.__name__.lower(), bounds, check, mending(shape, said), tokens)
    several, one = (Mets, NamedMet) if grades is None else (Grades, NamedGrade)
    bounds = {
        f"{several.__name__}.verdicts": {"minItems": len(names), "maxItems": len(names)},
        f"{one.__name__}.criterion": {"enum": list(names)},
        **({} if grades is None else {f"{one.__name__}.grade": of_grade}),
    }
    return ReplySchema(
        several, several.__name__.lower(), bounds, check, mending(several, lambda _: None), tokens
    )


def verdicts_in(found: BaseModel, names: Sequence[str], grades: int | None) -> dict[str, CriterionVerdict]:
    """Return what the model says of each criterion.

    >>> verdicts_in(Grade(reason="Nearly.", grade=4), ["detail"], 5)
    {'detail': CriterionVerdict(value=0.75, word='4 of 5', reason='Nearly.')}
    """
    listed = found.verdicts if isinstance(found, Grades | Mets) else [found]
    by_name = [getattr(one, "criterion", name) for one, name in zip(listed, names, strict=True)]
    return {name: _verdict(one, grades) for name, one in zip(by_name, listed, strict=True)}


def _verdict(one: object, grades: int | None) -> CriterionVerdict:
    if isinstance(one, Grade | NamedGrade):
        assert grades is not None  # noqa: S101 -- a grade is asked for with a scale
        return CriterionVerdict((one.grade - 1) / (grades - 1), f"{one.grade} of {grades}", one.reason)
    assert isinstance(one, Met | NamedMet)  # noqa: S101 -- there are no others
    return CriterionVerdict(float(one.met), "met" if one.met else "not met", one.reason)


def _check(found: BaseModel, names: Sequence[str], grades: int | None) -> None:
    """Raise ValueError for a grade outside the scale, and for a criterion that is missing or there twice."""
    listed = found.verdicts if isinstance(found, Grades | Mets) else [found]
    if isinstance(found, Grades | Mets):
        judged = [one.criterion for one in found.verdicts]
        if sorted(judged) != sorted(names):
            raise ValueError(f"it must have one verdict each for {', '.join(names)}, not for {judged}")
    for one in listed:
        grade = getattr(one, "grade", None)
        if grade is not None and grades is not None and not 1 <= grade <= grades:
            raise ValueError(f"the grade must be from 1 to {grades}, not {grade}")

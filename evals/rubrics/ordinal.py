"""Grades on a scale from 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from rag_assay.evals.rubrics.rubric import Anchors, Criterion, Rubric, Wording, graded
from rag_assay.warehouse.recipe import error_at

LOWEST, HIGHEST = "Of no use", "As good as it can be"


def check_grades(scale: int, anchors: Mapping[float, str], place: tuple[str, ...] = ()) -> None:
    for value in anchors:
        if value not in range(1, scale + 1):
            reason = f"the anchor `{value:g}` is of no grade: they are 1 to {scale}"
            raise error_at((*place, "anchors", f"{value:g}"), reason)
    for grade in (1, scale):
        if grade not in anchors:
            raise error_at(
                (*place, "anchors"), f"say what the grade {grade} means; those between may be left out"
            )


class Ordinal(Rubric):
    """Grades an answer on a scale from 1.

    ask: question to the annotator
    scale: number of grades
    anchors: grade -> its meaning; at least of the lowest and the highest
    """

    kind: ClassVar[str] = "ordinal"

    ask: Wording = "How good is the answer?"
    scale: Annotated[int, Field(ge=2, le=10)] = 5
    anchors: Anchors | None = None

    @model_validator(mode="after")
    def _anchors_are_grades(self) -> Self:
        if self.anchors is not None:
            check_grades(self.scale, self.anchors)
        return self

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        anchors = self.anchors or {1.0: LOWEST, float(self.scale): HIGHEST}
        return (Criterion(None, self.ask, graded(self.scale, anchors)),)

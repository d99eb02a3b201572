"""Points with anchors in words; unless a study words its own, 5, 3 or 0 as in the sports news project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from evals.annotating.rubric import Criterion, Rubric

DEFAULT = {
    5.0: "Right, and in the language of the question; or it rightly says that it does not know",
    3.0: "Right in part: a fact is missing or wrong, something is made up, or it is in another language",
    0.0: "Wrong",
}


class Points(Rubric):
    """Gives points to an answer.

    ask: what the annotator is asked
    anchors: points -> what they are given for, two or more
    """

    kind: ClassVar[str] = "points"
    level: ClassVar[Literal["nominal", "ordinal", "interval"]] = "interval"

    ask: Annotated[str, Field(min_length=1, max_length=500)] = "How good is the answer?"
    anchors: Annotated[Mapping[float, str], Field(min_length=2, max_length=11)] = DEFAULT

    @field_validator("anchors")
    @classmethod
    def _best_first(cls, value: Mapping[float, str]) -> Mapping[float, str]:
        return dict(sorted(value.items(), reverse=True))

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """One, without a name."""
        return (Criterion(None, self.ask, self.anchors),)

"""Points with anchors in words; unless a study words its own, 5, 3 or 0 as in the sports news project."""

from __future__ import annotations

from typing import ClassVar, Literal

from rag_assay.evals.rubrics.rubric import Anchors, Criterion, Rubric, Wording

DEFAULT = {
    5.0: "Right, and in the language of the question; or it rightly says that it does not know",
    3.0: "Right in part: a fact is missing or wrong, something is made up, or it is in another language",
    0.0: "Wrong",
}


class Points(Rubric):
    """Gives points to an answer: 5, 3 or 0, or others with their anchors in words.

    ask: question to the annotator
    anchors: points -> their meaning, two or more
    """

    kind: ClassVar[str] = "points"
    level: ClassVar[Literal["nominal", "ordinal", "interval"]] = "interval"

    ask: Wording = "How good is the answer?"
    anchors: Anchors = DEFAULT

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return (Criterion(None, self.ask, self.anchors),)

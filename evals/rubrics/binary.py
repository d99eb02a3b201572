"""Yes or no."""

from __future__ import annotations

from typing import ClassVar, Literal

from rag_assay.evals.rubrics.rubric import Criterion, Rubric, Wording


class Binary(Rubric):
    """Says yes (1) or no (0) of an answer; yes is the better one.

    ask: question to the annotator
    yes, no: meaning of each
    """

    kind: ClassVar[str] = "binary"
    level: ClassVar[Literal["nominal", "ordinal", "interval"]] = "nominal"

    ask: Wording = "Is the answer right?"
    yes: Wording = "Right"
    no: Wording = "Wrong, or right in part"

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return (Criterion(None, self.ask, {1.0: self.yes, 0.0: self.no}),)

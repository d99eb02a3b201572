"""A judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.evals.judging.contract import (
    Judge,
    JudgeCase,
    JudgeContext,
    JudgedMetric,
    Judgement,
    Judgements,
)
from rag_assay.warehouse.schemas import Status


class Brief(Judge):
    """Says whether an answer is brief.

    words: so many at most
    """

    kind: ClassVar[str] = "acme_brief"
    varies: ClassVar[bool] = False

    words: Annotated[int, Field(ge=1)] = 20

    @property
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        """Return the one metric: 1 where the answer is brief, else 0."""
        return (JudgedMetric("brief"),)

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> Sequence[Judgements]:
        """Count the words of each answer."""
        return [{"brief": self._verdict(len((case.answer or "").split()))} for case in cases]

    def _verdict(self, count: int) -> Judgement:
        return Judgement(Status.OK, float(count <= self.words), f"{count} words")

    def dependencies(self, seed: int) -> list[str | int]:
        """Return nothing: it asks no model."""
        return []

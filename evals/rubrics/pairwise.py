"""Which of two answers is better."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, StringConstraints

from rag_assay.evals.rubrics.rubric import Criterion, Rubric, Wording

WIN, TIE, LOSS = 1.0, 0.5, 0.0


class PairwiseRubric(Rubric):
    """Says which is better of the answers of two cells, without naming them.

    The value is of the cell itself: 1 where its answer is better, 0 where that of the other cell is, 0.5 for
    a tie. Which answer stands first is drawn for each annotator and item.

    against: the other cell, without the study, as in `tokens-128.minilm.bm25.extractive`
    ask: question to the annotator
    ties: whether the annotator may choose a tie
    """

    model_config = ConfigDict(serialize_by_alias=True)

    kind: ClassVar[str] = "pairwise"
    compares: ClassVar[bool] = True

    cell: Annotated[
        str, StringConstraints(pattern=r"^[^.\s]+(\.[^.\s]+)+$", max_length=500), Field(alias="against")
    ]
    ask: Wording = "Which answer is better?"
    ties: bool = True

    @property
    def against(self) -> str:
        return self.cell

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        anchors = {WIN: "It is better", TIE: "Both are equally good", LOSS: "The other is better"}
        if not self.ties:
            del anchors[TIE]
        return (Criterion(None, self.ask, anchors),)

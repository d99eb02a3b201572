"""Sections of a study file: question sets, restrictions, the budget."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assets.recipes.build_half import Name
from warehouse.recipe import Strict


class BeirQuestions(Strict):
    """The queries and relevance grades of a BEIR folder.

    split: which file under `qrels/` says what is relevant; only its queries are asked
    """

    path: str
    split: str = "test"
    name: Name = "beir"


class QuestionSource(Strict):
    """Where questions come from: one of our YAML files, or a BEIR folder.

    use: what they are for: `test` questions are asked and measured; on `train` questions, what a retriever
        says is `tuned` is chosen, and nothing is reported of them
    """

    file: str | None = None
    beir: BeirQuestions | None = None
    use: Literal["test", "train"] = "test"

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.file is None) == (self.beir is None):
            raise ValueError("give either `file` or `beir`")
        return self


class Restriction(Strict):
    """Where a generator is used, when not everywhere.

    chunkings, embedders, retrievers: only with these
    sample: only for so many questions, drawn by the study's seed; its cells are compared on those questions
    """

    chunkings: tuple[Name, ...] | None = None
    embedders: tuple[Name, ...] | None = None
    retrievers: tuple[Name, ...] | None = None
    sample: Annotated[int, Field(ge=1)] | None = None


class StudyBudget(Strict):
    """What a run may spend on the calls of a study's retrievers and generators, in US dollars.

    A call is begun only while there is room for it and for those under way, each taken to cost as much as the
    dearest call of its model so far. So it is passed by at most the calls in flight, and those only by what
    they cost more; calls whose price is not known do not count.
    `enrich`, `date_by` and an embedder's `api` have a `budget_usd` of their own.
    """

    usd: Annotated[float, Field(ge=0)]

"""Sections of a study file: question sets, restrictions, the budget."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from assets.recipes.build_half import Name
from warehouse.inference.budget import Caps
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
    """What a run may spend on the calls of a study's retrievers and generators: money, tokens, calls.

    usd: US dollars; calls whose price is not known do not count
    tokens: read and written together; those that a server does not count do not count
    calls: that are made, whatever comes of them

    A call is begun only while there is room for it and for those under way, each taken to cost as much as the
    dearest call of its model so far. So a cap in dollars or tokens is passed by at most the calls in flight,
    and those only by what they cost more; a cap in calls is never passed. Calls that the cache holds, and
    those to a model of this process, count nothing. `enrich`, `date_by` and an embedder's `api` have a
    `budget_usd` of their own.
    """

    usd: Annotated[float, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    calls: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _caps_something(self) -> Self:
        if self.caps == Caps():
            raise ValueError("say how much may be spent: `usd`, `tokens` or `calls`")
        return self

    @property
    def caps(self) -> Caps:
        """The caps as budgets take them."""
        return Caps(self.usd, self.tokens, self.calls)

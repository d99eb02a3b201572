"""The section `search`: which part of the grid is run, where the whole of it is too much."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rag_assay.warehouse.recipe import Strict

Method = Literal["one_factor_at_a_time", "random", "successive_halving"]
_OF: dict[str, tuple[Method, ...]] = {
    "base": ("one_factor_at_a_time",),
    "budget": ("random", "successive_halving"),
    "first": ("successive_halving",),
    "growth": ("successive_halving",),
    "alpha": ("successive_halving",),
}
"""Key -> the methods that read it."""


class SearchBudget(Strict):
    """What a search may ask for at most, as it is estimated before anything is asked.

    cells: how many cells
    evaluations: how many times a cell is asked a question
    calls, tokens, usd: of the models that the study's budget pays for, by the most that `assay run --dry-run`
        estimates
    """

    cells: Annotated[int, Field(ge=1)] | None = None
    evaluations: Annotated[int, Field(ge=1)] | None = None
    calls: Annotated[int, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    usd: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _caps_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("say how much may be asked: `cells`, `evaluations`, `calls`, `tokens` or `usd`")
        return self


class Search(Strict):
    """Which part of the grid is run.

    method: `one_factor_at_a_time`: a base cell, and those that differ from it on one axis; `random`: cells
        drawn by the seed, as many as the budget allows; `successive_halving`: all cells on a few questions,
        those that are left on more, and so on: what falls behind is dropped on the way
    base: the base cell by its key without the study; unless said, the first name of each axis
    budget: what may be asked at most; a race without one drops only what is significantly worse
    seed: of what is drawn; that of the study unless said
    first: questions of the first rung
    growth: how many times as many questions the next rung has
    alpha: chance, over all rungs together, that a cell is dropped by a test although none of the others is
        better
    """

    method: Method
    base: Annotated[str, Field(max_length=500)] | None = None
    budget: SearchBudget | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    first: Annotated[int, Field(ge=4)] = 24
    growth: Annotated[float, Field(ge=1.25, le=8)] = 2.0
    alpha: Annotated[float, Field(gt=0, le=0.2)] = 0.05

    @model_validator(mode="after")
    def _fits_its_method(self) -> Self:
        foreign = [
            key for key, methods in _OF.items() if key in self.model_fields_set and self.method not in methods
        ]
        if foreign:
            methods = " or ".join(_OF[foreign[0]])
            raise ValueError(f"`{foreign[0]}` is of {methods}, not of {self.method}")
        if self.method == "random" and self.budget is None:
            raise ValueError("a random search needs a `budget`, such as {cells: 12}")
        return self

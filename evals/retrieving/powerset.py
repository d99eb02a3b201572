"""All combinations of some retrievers: which of them earn their keep, and which together."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from evals.retrieving.contract import Depth
from evals.study.findings import instead
from warehouse.recipe import Recipe

if TYPE_CHECKING:
    RetrieverRecipe = Any

NONE = "none"  # the combination of no retriever at all
LONGEST = 60  # characters of a name in a study


class Powerset(Recipe):
    """Every combination of retrievers, the empty one included; each is a retriever of its own in the study.

    A study writes `all-four: {powerset: [bm25, dense, recency, metadata], fuse: rrf, k: 4}`.

    of: 1 to 8 retrievers: by its kind, with that kind's defaults, or `{kind: {its parameters}}`
    fuse: how two and more become one: the name of a method of `fuse`, or `{method: {its parameters}}`
    k: passages that each combination returns
    depth: candidates of each arm of a fusion, where the arm does not say its own `k`

    A combination of one retriever is that retriever alone; the empty one finds nothing for any question.
    """

    code_version: ClassVar[str] = "1"

    of: Annotated[tuple[RetrieverRecipe, ...], Field(min_length=1, max_length=8)]
    fuse: dict[str, Any] = Field(default_factory=lambda: {"rrf": {}})
    k: Depth = 10
    depth: Depth = 100

    @field_validator("of", mode="before")
    @classmethod
    def _kinds_are_short_for_their_defaults(cls, given: Any) -> Any:
        return [{one: {}} if isinstance(one, str) else one for one in given] if _is_list(given) else given

    @field_validator("fuse", mode="before")
    @classmethod
    def _a_method_is_short_for_its_defaults(cls, given: Any) -> Any:
        return {given: {}} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _can_be_fused(self) -> Self:
        from evals.retrieving.fusing import METHODS

        for method in self.fuse:
            if method not in METHODS:
                told = f"unknown method `{method}`; {instead(method, METHODS)}"
                raise ValidationError.from_exception_data(
                    "Powerset",
                    [
                        InitErrorDetails(
                            type=PydanticCustomError("powerset", "{told}", {"told": told}),
                            loc=("fuse",),
                            input={},
                        )
                    ],
                )
        if len(self.of) > 1:
            self._fused(self.of)  # a wrong method is told here, at its line
        return self

    def retrievers(self, name: str) -> dict[str, dict[str, Any]]:
        """Return each combination by its name, as a study would write it.

        Raises:
            ValueError: a name is too long.
        """
        found: dict[str, dict[str, Any]] = {}
        labels = self.labels()
        for size in range(len(self.of) + 1):
            for places in combinations(range(len(self.of)), size):
                own = f"{name}-{'+'.join(labels[place] for place in places) or NONE}"
                found[own] = self._recipe([self.of[place] for place in places])
        longest = max(found, key=len)
        if len(longest) > LONGEST:
            raise ValueError(
                f"`{longest}` has {len(longest)} characters, and a name has at most {LONGEST}: "
                "give the powerset a shorter name"
            )
        return found

    def labels(self) -> list[str]:
        """Return a name for each retriever: its kind, and from the second of a kind on its number."""
        kinds = [_kind(one) for one in self.of]
        counts = [kinds[: place + 1].count(kind) for place, kind in enumerate(kinds)]
        return [kind if count == 1 else f"{kind}-{count}" for kind, count in zip(kinds, counts, strict=True)]

    def _recipe(self, arms: list[Any]) -> dict[str, Any]:
        if not arms:
            return {"nothing": {"k": self.k}}
        if len(arms) == 1:
            alone = arms[0].recipe.at_depth(self.k)
            return {arms[0].kind: alone.model_dump()}
        return {"fuse": self._fused(arms).model_dump()}

    def _fused(self, arms: Any) -> Any:
        from evals.retrieving.fusing import Fuse

        deep = [{arm.kind: self._deep(arm.recipe).model_dump()} for arm in arms]
        return Fuse.model_validate({**self.fuse, "of": deep, "k": self.k})

    def _deep(self, recipe: Any) -> Any:
        says_its_own = "k" in recipe.model_fields_set or _kind_of_chain(recipe)
        return recipe if says_its_own else recipe.at_depth(self.depth)


def _kind_of_chain(recipe: Any) -> bool:
    return hasattr(recipe, "steps")


def _kind(one: Any) -> str:
    return str(one.recipe.retriever.kind if _kind_of_chain(one.recipe) else one.kind)


def _is_list(given: Any) -> bool:
    return isinstance(given, list | tuple)

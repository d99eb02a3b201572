"""Powersets: one retriever for each combination of some retrievers, the empty one included."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from rag_assay.evals.retrieval.chain import Chain
from rag_assay.evals.retrieval.contract import AnyRetriever, Depth, IndexRetriever, Retriever
from rag_assay.evals.retrieval.fusion import METHODS, Fuse
from rag_assay.evals.retrieval.ranking import Ranking, nothing
from rag_assay.warehouse.components import Component
from rag_assay.warehouse.recipe import error_at
from rag_assay.warehouse.suggestions import did_you_mean

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query import Query


class Nothing(IndexRetriever):
    """Finds no passage for any question: what a model answers from is what it knows by itself."""

    kind: ClassVar[str] = "nothing"
    code_version: ClassVar[str] = "1"

    k: Depth = 10

    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        return nothing()


NONE = "none"  # the combination of no retriever at all
LONGEST = 60  # characters of a name in a study


class Powerset(Component):
    """Every combination of retrievers, the empty one included; each is a retriever of its own in the study.

    A study writes `all-four: {powerset: [bm25, dense, recency, metadata], fuse: rrf, k: 4}`.

    of: 1 to 8 retrievers: by its kind, with that kind's defaults, or `{kind: {its parameters}}`
    fuse: how two and more become one: the name of a method of `fuse`, or `{method: {its parameters}}`
    k: passages that each combination returns
    depth: candidates of each retriever of a fusion that does not say its own `k`

    A combination of one retriever is that retriever alone; the empty one finds nothing for any question.
    """

    kind: ClassVar[str] = "powerset"
    code_version: ClassVar[str] = "1"

    of: Annotated[tuple[AnyRetriever, ...], Field(min_length=1, max_length=8)]
    fuse: dict[str, object] = Field(default={"rrf": {}})
    k: Depth = 10
    depth: Depth = 100

    @field_validator("of", mode="before")
    @classmethod
    def _kinds_are_short_for_their_defaults(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [{one: {}} if isinstance(one, str) else one for one in value]

    @field_validator("fuse", mode="before")
    @classmethod
    def _a_method_is_short_for_its_defaults(cls, value: Any) -> Any:
        return {value: {}} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _can_be_fused(self) -> Self:
        for method in self.fuse:
            if method not in METHODS:
                raise error_at(("fuse",), f"unknown method `{method}`; {did_you_mean(method, METHODS)}")
        if len(self.of) > 1:
            self._fused(self.of)  # a wrong method is told here, at its line
        return self

    def retrievers(self, name: str) -> dict[str, Retriever]:
        found: dict[str, Retriever] = {}
        labels = self.labels()
        for size in range(len(self.of) + 1):
            for places in combinations(range(len(self.of)), size):
                combined = f"{name}-{'+'.join(labels[place] for place in places) or NONE}"
                found[combined] = self._combined([self.of[place] for place in places])
        longest = max(found, key=len)
        if len(longest) > LONGEST:
            raise ValueError(
                f"`{longest}` has {len(longest)} characters, and a name has at most {LONGEST}: "
                "give the powerset a shorter name"
            )
        return found

    def labels(self) -> list[str]:
        kinds = [(one.retriever.kind if isinstance(one, Chain) else one.kind) for one in self.of]
        counts = [kinds[: place + 1].count(kind) for place, kind in enumerate(kinds)]
        return [kind if count == 1 else f"{kind}-{count}" for kind, count in zip(kinds, counts, strict=True)]

    def _combined(self, arms: list[Retriever]) -> Retriever:
        if not arms:
            return Nothing(k=self.k)
        return arms[0].at_depth(self.k) if len(arms) == 1 else self._fused(arms)

    def _fused(self, arms: Sequence[Retriever]) -> Fuse:
        deep = tuple(self._deep(arm) for arm in arms)
        return Fuse.model_validate({**self.fuse, "of": deep, "k": self.k})

    def _deep(self, arm: Retriever) -> Retriever:
        has_depth = "k" in arm.model_fields_set or isinstance(arm, Chain)
        return arm if has_depth else arm.at_depth(self.depth)

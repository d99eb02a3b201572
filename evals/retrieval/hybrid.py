"""Hybrid search: the normalised scores of BM25 and dense search added, with default weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.retrieval.contract import Depth, Retriever, Searcher
from rag_assay.evals.retrieval.dense import Dense
from rag_assay.evals.retrieval.fusion import Fuse, Normalisation, Weighted

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex

LANCEDBS = ("reranker", "constant", "fill")


class Hybrid(Retriever):
    """The sum of the scores of `bm25` and `dense`, each brought to one scale among its own candidates.

    The same as `fuse: {weighted: {normalise}, of: [{bm25: {k: depth}}, {dense: {k: depth}}]}`, in one word.

    bm25, dense: parameters of this retriever
    weight: share of `dense`; default: what measured best for the embedder, 0.7 for
        multilingual-e5-small and 0.5 for all others (docs/proof.md)
    normalise: min_max | z_score | sum (`fuse` says how)
    depth: candidates of each retriever, or `k` where that is more; the last one sets the scale's lower end
    """

    kind: ClassVar[str] = "hybrid"
    code_version: ClassVar[str] = "4"

    k: Depth = 10
    bm25: Bm25 = Field(default_factory=Bm25)
    dense: Dense = Field(default_factory=Dense)
    weight: Annotated[float, Field(ge=0, le=1)] | None = None
    normalise: Normalisation = "min_max"
    depth: Depth = 1_000

    @model_validator(mode="before")
    @classmethod
    def _is_not_lancedbs(cls, value: Any) -> Any:
        if isinstance(value, dict) and any(name in value for name in LANCEDBS):
            raise ValueError(
                "LanceDB's rerankers are those of `lancedb`, as in {lancedb: {reranker: linear}}"
            )
        return value

    @model_validator(mode="after")
    def _says_its_depth_once(self) -> Self:
        for name in ("bm25", "dense"):
            arm = getattr(self, name)
            if arm.k != type(arm)().k:  # a recipe that is written out says the default
                raise ValueError(f"`depth` is the number of candidates of each: leave `k` of `{name}` out")
        return self

    @property
    def needs_vector(self) -> bool:
        return True

    def versions(self) -> list[str]:
        return [self.code_version, *self._fusion().versions()]

    def open(self, index: OpenIndex, context: RetrievalContext) -> Searcher:
        return self._fusion(context.dense_weight).open(index, context)

    def _fusion(self, dense_weight: float = 0.5) -> Fuse:
        weight = dense_weight if self.weight is None else self.weight
        depth = max(self.depth, self.k)
        return Fuse(
            weighted=Weighted(normalise=self.normalise),
            of=(self.bm25.at_depth(depth), self.dense.at_depth(depth)),
            weights=(1 - weight, weight),
            k=self.k,
        )

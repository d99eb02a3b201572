"""Dense retrieval: nearest chunks by the cosine of their vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from rag_assay.assets.indexing.index_recipe import Ef, Kind, Probes, Refinement, SearchParameters
from rag_assay.evals.retrieval.contract import Depth, IndexRetriever
from rag_assay.evals.retrieval.ranking import Ranking, Vector

if TYPE_CHECKING:
    from rag_assay.evals.retrieval.context import RetrievalContext
    from rag_assay.evals.retrieval.index import OpenIndex
    from rag_assay.evals.retrieval.query import Query

KNOWN: dict[Kind, tuple[str, ...]] = {
    "exact": (),
    "hnsw": ("nprobes", "ef", "refine_factor"),
    "ivf_pq": ("nprobes", "refine_factor"),
}
"""The parameters of a search that each kind of index knows."""


UNLESS_SAID = Field(exclude_if=lambda value: value is None)
"""Not stored where it is None, so that recipes without the parameter keep their identity."""


class Dense(IndexRetriever):
    """Cosine similarity between the question's vector and the chunks'.

    search: exact (every chunk) | ann (the index's approximate search: faster on many chunks, and may miss
        some) | auto (ann where the index has it)
    nprobes: how many partitions of an approximate index are looked into, those whose centres are nearest to
        the question first; fewer are faster and miss more, all of them leave none out. Default: as many
        as the index was tuned to
    ef: candidates that are kept while a graph of the index (`hnsw`) is walked; more find more and take
        longer, and it is never less than twice `k` times `refine_factor`. Default: what the index was
        tuned to
    refine_factor: how many times `k` candidates are taken by their shortened vectors, to be compared again by
        their exact ones; this corrects the order of shortened vectors. Default: what the index
        was tuned to

    A parameter that an index does not know is an error of each question: all three on an index that is
    searched exactly, and `ef` on one without graphs (`ivf_pq`).

    A filter that is not known as a predicate is searched exactly, so that it never costs results.
    """

    kind: ClassVar[str] = "dense"
    code_version: ClassVar[str] = "2"

    k: Depth = 10
    search: Literal["auto", "exact", "ann"] = "auto"
    nprobes: Annotated[Probes | None, UNLESS_SAID] = None
    ef: Annotated[Ef | None, UNLESS_SAID] = None
    refine_factor: Annotated[Refinement | None, UNLESS_SAID] = None

    @model_validator(mode="after")
    def _tunes_no_exact_search(self) -> Self:
        if self.search == "exact" and self._said:
            raise ValueError(
                f"`search: exact` compares every chunk: {_listed(self._said)} would change nothing; leave "
                "that out, or search `ann`"
            )
        return self

    @property
    def _said(self) -> dict[str, int]:
        named = {"nprobes": self.nprobes, "ef": self.ef, "refine_factor": self.refine_factor}
        return {name: value for name, value in named.items() if value is not None}

    def on(self, tuned: SearchParameters) -> SearchParameters:
        """Return how an index is searched that was tuned to some parameters; the recall is that of those."""
        strange = {name: value for name, value in self._said.items() if name not in KNOWN[tuned.kind]}
        if strange:
            what = {"exact": "has no approximate search", "ivf_pq": "has no graphs (`ivf_pq`)"}[tuned.kind]
            raise ValueError(f"{_listed(strange)} means nothing to an index that {what}; leave that out")
        return replace(
            tuned,
            nprobes=self.nprobes or tuned.nprobes,
            ef=self.ef or tuned.ef,
            refine_factor=self.refine_factor or tuned.refine_factor,
        )

    @property
    def needs_vector(self) -> bool:
        return True

    def rank(self, query: Query, index: OpenIndex, context: RetrievalContext) -> Ranking:
        if query.vector is None:
            raise ValueError("dense retrieval needs the question's vector")
        if self.search == "ann" and not index.has_ann:
            raise ValueError(
                "`search: ann` needs an index with approximate search; build one, or search `exact`"
            )
        search = self.on(index.facts.search)
        exactly = self.search == "exact" or not index.has_ann
        if exactly or (query.allowed is not None and query.where is None):
            return nearest(query.vector, query, index, self.k)
        rows, scores = index.search_ann(query.vector, self.k, query.where, query.allowed, search)
        return Ranking.best(rows, scores, self.k)


def _listed(said: Mapping[str, int]) -> str:
    return ", ".join(f"`{name}: {value}`" for name, value in said.items())


def nearest(vector: Vector, query: Query, index: OpenIndex, k: int) -> Ranking:
    """Rank every chunk that may be found by its cosine with ``vector``; equal vectors tie exactly."""
    scores = index.cosines(vector)
    rows = np.arange(len(scores)) if query.allowed is None else np.flatnonzero(query.allowed)
    return Ranking.best(rows, scores[rows], k)

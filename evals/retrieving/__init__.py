"""Retrievers: one file each. A retriever is its own recipe: its fields are what a study file says of it."""

from __future__ import annotations

from typing import Any

from assets.recipes import OneKind, one_of
from evals.retrieving.bm25 import Bm25
from evals.retrieving.contract import Query, Ranking, Retriever
from evals.retrieving.dense import Dense
from evals.retrieving.fulltext import FullText
from evals.retrieving.fusing import Fuse

RETRIEVERS: dict[str, type[Retriever]] = {"bm25": Bm25, "dense": Dense, "fulltext": FullText, "fuse": Fuse}


class _RetrieverRecipe(OneKind):
    """A retriever as a study writes it: `{kind: {its parameters}}`."""


RetrieverRecipe: Any = one_of("RetrieverRecipe", RETRIEVERS, _RetrieverRecipe)
Fuse.model_rebuild(_types_namespace={"RetrieverRecipe": RetrieverRecipe})
RetrieverRecipe.model_rebuild(force=True)

__all__ = ["RETRIEVERS", "Query", "Ranking", "Retriever", "RetrieverRecipe"]

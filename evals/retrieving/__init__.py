"""Retrievers: one file each. A retriever is its own recipe: its fields are what a study file says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evals.retrieving.contract import Query, Ranking, Retriever

if TYPE_CHECKING:
    from evals.retrieving.registry import RETRIEVERS, STEPS, RetrieverRecipe, StudyRetriever

__all__ = ["RETRIEVERS", "STEPS", "Query", "Ranking", "Retriever", "RetrieverRecipe", "StudyRetriever"]


def __getattr__(name: str) -> Any:
    # The registry holds the steps of `evals.understanding`, which keep to the contract in this package:
    # whichever of both is imported first, the registry is made when it is first asked for.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from evals.retrieving import registry as recipes

    return getattr(recipes, name)

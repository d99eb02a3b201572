"""Expands a powerset into one retriever for each combination."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.retrieval.powerset import Powerset
from rag_assay.warehouse.recipe import error_at


def expand_powersets(retrievers: Mapping[str, Retriever | Powerset]) -> dict[str, Retriever]:
    """Put the combinations of every powerset in its place; each name once.

    Raises:
        ValidationError: at a powerset one of whose combinations has a name that is too long or taken.
    """
    found: dict[str, Retriever] = {}
    for name, one in retrievers.items():
        try:
            members = one.retrievers(name) if isinstance(one, Powerset) else {name: one}
        except ValueError as error:
            raise error_at((name,), str(error)) from error
        taken = [key for key in members if key in found or (key != name and key in retrievers)]
        if taken:
            raise error_at((name,), f"there is another retriever `{min(taken)}`; rename one of them")
        found |= members
    return found

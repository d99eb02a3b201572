"""Recipes keep their identities, so that what an old home holds is found again.

`identities.json` was written by an earlier version. Whoever changes what a part computes raises its
`code_version`, and writes the identities of just that part anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.assets.pages import WITHOUT_EFFECT
from rag_assay.assets.recipes.build_half import Chunking
from rag_assay.evals.study.registry import (
    QUERY_TRANSFORMS,
    RETRIEVERS,
    STEPS,
    read_generator,
    read_retriever_or_powerset,
)
from rag_assay.evals.study.sections import expand_powersets
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.source import Source

STORED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "identities.json").read_text("utf-8"))


def identities(part: str, written: Any) -> dict[str, str]:
    if part == "retriever":
        found = expand_powersets({"x": read_retriever_or_powerset(written)})
        return {name: one.identity() for name, one in found.items()}
    if part == "embedder":
        recipe = EmbedderRecipe.model_validate(written)
        return {
            "revision": recipe.revision(),
            "query": recipe.query_revision(),
            "passage": recipe.passage_revision(),
        }
    if part == "source":
        source = Source.model_validate(written)
        assert source.versions() == []
        recipe = source.model_dump(mode="json", exclude=WITHOUT_EFFECT)
        return {"origin": source.origin, "recipe": digest(recipe)}
    one = read_generator(written) if part == "generator" else Chunking.model_validate(written)
    return {"x": one.identity()}


@pytest.mark.parametrize(
    "stored", STORED, ids=[f"{one['part']} {number}" for number, one in enumerate(STORED)]
)
def test_a_recipe_keeps_its_identity(stored: dict[str, Any]) -> None:
    assert identities(stored["part"], stored["written"]) == stored["identities"]


def test_every_kind_of_retriever_step_and_transform_is_among_them() -> None:
    text = json.dumps(STORED)
    kinds = {*RETRIEVERS, *STEPS, *QUERY_TRANSFORMS} - {"chain"}  # which is written as a list
    assert [kind for kind in sorted(kinds) if f'{{"{kind}": ' not in text] == []

"""Whoever uses a recipe is told by mypy what it takes and gives: no `Any` in a public signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from rag_assay.assets.embedding.component_embedders import OtherEmbedder
from rag_assay.evals.study.component_list import REGISTRIES, part_list
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.recipe import Recipe, Strict

FREE = {"model_dump", "model_post_init"}  # pydantic's own


def recipes() -> list[type[Strict]]:
    """Return every class of our own that a study file may fill."""
    part_list()  # imports the spiders and readers
    found: list[type[Strict]] = []
    waiting: list[type[Strict]] = [Strict]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("rag_assay.") and kind not in found:
                found.append(kind)
    return found


def signatures(kind: type[Strict]) -> Iterator[tuple[str, str]]:
    """Yield the fields and the public methods that a class defines itself, with their types as written."""
    for name, annotation in vars(kind).get("__annotations__", {}).items():
        if not name.startswith("_"):
            yield name, str(annotation)
    for name, member in list(vars(kind).items()):
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(function) and not name.startswith("_") and name not in FREE:
            yield name, " ".join(map(str, function.__annotations__.values()))


def test_no_recipe_has_any_in_a_public_signature() -> None:
    found = recipes()
    assert {Study, OtherEmbedder, Recipe} <= set(found)
    assert all(set(REGISTRIES[group].built_in) for group in ("retrievers", "chunkers"))
    loose = [
        f"{kind.__module__}.{kind.__qualname__}.{name}: {types}"
        for kind in found
        for name, types in signatures(kind)
        if re.search(r"\bAny\b", types)
    ]
    assert not loose, "\n".join(loose)

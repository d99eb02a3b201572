"""Powersets of a study: each combination a retriever of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from evals.retrieving import StudyRetriever


def expanded(retrievers: Mapping[str, Any]) -> dict[str, Any]:
    """Put the combinations of every powerset in its place; each name once.

    Raises:
        ValidationError: at a powerset one of whose combinations has a name that is too long or taken.
    """
    found: dict[str, Any] = {}
    for name, recipe in retrievers.items():
        own = {name: recipe}
        if recipe.kind == "powerset":
            try:
                written = recipe.recipe.retrievers(name)
            except ValueError as error:
                raise _wrong(name, str(error)) from error
            own = {key: StudyRetriever.model_validate(value) for key, value in written.items()}
        taken = [key for key in own if key in found or (key != name and key in retrievers)]
        if taken:
            raise _wrong(name, f"there is another retriever `{min(taken)}`; rename one of them")
        found |= own
    return found


def _wrong(name: str, told: str) -> ValidationError:
    detail = InitErrorDetails(
        type=PydanticCustomError("powerset", "{told}", {"told": told}), loc=(name,), input={}
    )
    return ValidationError.from_exception_data("Study", [detail])

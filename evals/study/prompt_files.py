"""Looks at the prompt templates that a study names by path, before anything is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_assay.assets.recipes.build_half import absolute
from rag_assay.evals.generation.answer_prompt import samples
from rag_assay.evals.generation.templates import Template
from rag_assay.warehouse.errors import InputError, Mistake
from rag_assay.warehouse.validation_errors import Finding
from rag_assay.warehouse.yaml_positions import Place


def with_absolute_prompts(data: dict[str, Any], base: Path) -> dict[str, Any]:
    """Return a study as its file says it, its prompt files by absolute paths.

    base: the folder of the study file
    """
    found = data
    for place, path in _named(data):
        try:
            found = _changed(found, place, str(absolute(path, base)))
        except InputError:
            continue  # which `prompt_mistakes` tells
    return found


def prompt_mistakes(data: dict[str, Any], base: Path) -> tuple[list[Finding], list[Mistake]]:
    """Return what is wrong with the prompt files of a study: in the study, and in the templates."""
    found: list[Finding] = []
    mistakes: list[Mistake] = []
    for place, path in _named(data):
        try:
            mistakes += Template.read(absolute(path, base)).mistakes(samples())
        except InputError as error:
            inside = [one for one in error.findings if isinstance(one, Mistake)]
            mistakes += inside
            found += [] if inside else [Finding(place, "no_file", str(error))]
    return found, list(dict.fromkeys(mistakes))


def _named(data: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield the place and the path of each prompt file that a generator names."""
    for name, kinds in _items(data.get("generators")):
        for kind, options in _items(kinds):
            prompt = options.get("prompt") if isinstance(options, dict) else None
            path = prompt.get("file") if isinstance(prompt, dict) else None
            if isinstance(path, str):
                yield ("generators", name, kind, "prompt", "file"), path


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _changed(data: Any, place: Place, value: str) -> Any:
    """Return a copy of a mapping with another value at a place."""
    if not place:
        return value
    return {**data, place[0]: _changed(data[place[0]], place[1:], value)}

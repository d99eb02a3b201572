"""What an export was made with: code, libraries, weights, prompts, data; and what of it differs here."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rag_assay.assets.tokenization.tokenizer import weights_of
from rag_assay.evals.export.recipe import ExportedRecipe
from rag_assay.evals.export.weights import Used
from rag_assay.evals.generation.answer_prompt import Prompts
from rag_assay.evals.generation.contract import Generator
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.inference import weights

REVISIONS = "revisions.json"
MOST_BYTES = 5_000_000
LIBRARIES = ("lancedb", "polars", "pyarrow", "numpy", "sentence-transformers", "tokenizers", "torch")
"""Those whose code is between a question and its answer, beside our own."""

Revisions = dict[str, Any]


def prompt_files(generator: Generator | None) -> dict[str, str]:
    """Return the prompts that a generator may ask by: name of the file -> text."""
    found: dict[str, str] = {}
    prompts = [getattr(generator, "prompts", None)]
    task = getattr(generator, "task", None)
    prompts += [task(name) for name in getattr(generator, "tasks", ())] if task else []
    for one in prompts:
        if isinstance(one, Prompts):
            found.update({name: template.text for name, template in one.files().items()})
    return found


def results_hang_on(recipe: ExportedRecipe) -> Revisions:
    """Return what decides the answers of a recipe beside its parameters: versions, weights, prompts."""
    generator, embedder = recipe.generator, recipe.embedder
    found: Revisions = {
        "retriever": recipe.retriever.all_versions(),
        "embedder": [embedder.query_revision(), embedder.passage_revision()],
        "tokenizer": weights.identity(*weights_of(recipe.tokenizer)),
    }
    if generator is not None:
        found["generator"] = [*generator.all_versions(), *generator.dependencies(recipe.seed, embedder)]
    return found


def revisions_of(recipe: ExportedRecipe, used: list[Used], data: Revisions) -> Revisions:
    """Return all that is recorded of an export.

    data: identities of its index, chunks and documents
    """
    return {
        "rag-assay": _version("rag-assay"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": libraries(),
        "results_hang_on": results_hang_on(recipe),
        "models": [one.record() for one in used],
        "data": data,
    }


def libraries() -> dict[str, str | None]:
    """Return the versions of the libraries that answer questions."""
    return {name: _version(name) for name in LIBRARIES}


def write_revisions(found: Revisions, folder: Path) -> None:
    """Write them into an export."""
    with atomic_write(folder / REVISIONS) as temporary:
        temporary.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")


def read_revisions(folder: Path) -> Revisions:
    """Return what an export records.

    Raises:
        InputError: it cannot be read.
    """
    path = folder / REVISIONS
    try:
        found = json.loads(read_bounded(path, MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({error}); export again") from error
    shapes = {"libraries": dict, "results_hang_on": dict, "models": list, "data": dict}
    is_ours = isinstance(found, dict) and all(
        isinstance(found.get(name), kind) for name, kind in shapes.items()
    )
    if not is_ours or any(not isinstance(one, dict) for one in found["models"]):
        raise InputError(f"{path}: is no record of an export; export again")
    return dict(found)


def differences(recipe: ExportedRecipe, known: Revisions) -> list[str]:
    """Return a sentence for each part whose answers may be others here than those that were measured."""
    now = results_hang_on(recipe)
    measured = known["results_hang_on"]
    return [
        f"the {name} is another one here than in the export: its code, its weights, its prompts or its server"
        for name in now
        if json.loads(json.dumps(now[name])) != measured.get(name)
    ]


def other_libraries(known: Revisions) -> list[str]:
    """Return `NAME 1.0 (measured with 0.9)` for each library that has another version here.

    >>> other_libraries({"libraries": libraries()})
    []
    """
    measured = known["libraries"]
    return [
        f"{name} {here} (measured with {measured.get(name)})"
        for name, here in libraries().items()
        if measured.get(name) != here
    ]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

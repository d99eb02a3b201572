"""The recipe of an exported cell: all that answers a question beside the index, resolved, as YAML."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, JsonValue, ValidationError

from rag_assay.assets.embedding.component_embedders import AnyEmbedder
from rag_assay.assets.recipes.build_half import Name
from rag_assay.evals.generation.contract import AnyGenerator
from rag_assay.evals.pipeline.retrieval import CellParts
from rag_assay.evals.retrieval.contract import AnyRetriever
from rag_assay.evals.study import registry  # noqa: F401 -- fills the registries that the fields below read
from rag_assay.evals.study.cells import Cell
from rag_assay.warehouse.atomic_write import write_file
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.files import read_bounded
from rag_assay.warehouse.inference.budget import Caps
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.validation_errors import in_words, lines_of
from rag_assay.warehouse.yaml_positions import escape_text, load

RECIPE = "recipe.yaml"
FORM = 1  # of the folder; a later version of rag-assay that writes another one reads this one, too

MOST_BYTES = 1_000_000
_VARIABLE = re.compile(r"(?<!\$)\$\{[A-Za-z_]")
HEAD = """\
# A cell of a study, as `assay export` wrote it: every parameter, with what was fitted in place of `tuned`.
# Change nothing here: the checksums would not be those of what was measured. Export again instead.
"""


class CellName(Strict):
    """The axes of the cell in its study."""

    chunking: Name
    embedder: Name
    retriever: Name
    generator: Name
    replicate: Annotated[int, Field(ge=1, le=1000)] = 1


class ExportedRecipe(Strict):
    """One cell.

    built: how the index was built, in the study's words: for people, nothing here reads it
    tokenizer: counts tokens, as the chunking's
    """

    form: Literal[1]
    study: Name
    description: Annotated[str, Field(max_length=10_000)] = ""
    cell: CellName
    seed: Annotated[int, Field(ge=0)]
    built: dict[str, JsonValue] = Field(default_factory=dict)
    tokenizer: Annotated[str, Field(min_length=1, max_length=500)]
    embedder: AnyEmbedder
    retriever: AnyRetriever
    generator: AnyGenerator | None = None

    @property
    def key(self) -> Cell:
        one = self.cell
        return Cell(
            self.study, one.chunking, one.embedder, one.retriever, one.generator, replicate=one.replicate
        )

    def parts(self, caps: Caps | None) -> CellParts:
        return CellParts(
            self.key, self.seed, self.tokenizer, self.embedder, self.retriever, self.generator, caps
        )


def recipe_of(parts: CellParts, description: str, built: dict[str, Any]) -> ExportedRecipe:
    cell = CellName(**{axis: getattr(parts.cell, axis) for axis in CellName.model_fields})
    stated = {"form": FORM, "study": parts.cell.study, "description": description, "built": built}
    names = ("seed", "tokenizer", "embedder", "retriever", "generator")
    return ExportedRecipe(cell=cell, **stated, **{name: getattr(parts, name) for name in names})


def write_recipe(written: dict[str, Any], folder: Path) -> None:
    escaped = map_texts(written, lambda _key, text: escape_text(text))
    text = yaml.safe_dump(escaped, sort_keys=False, allow_unicode=True, width=100)
    write_file(folder / RECIPE, HEAD + text)


def read_written(folder: Path) -> dict[str, Any]:
    path = folder / RECIPE
    text = read_bounded(path, MOST_BYTES).decode("utf-8", "replace")
    if _VARIABLE.search(text):
        raise InputError(f"{path}: names a variable of the environment; an export reads none")
    data = load(path).data
    if not isinstance(data, dict) or data.get("form") != FORM:
        raise InputError(
            f"{path}: is of a form that this version cannot read (`form: {FORM}` is needed); "
            "export again with this version, or open it with the one that wrote it"
        )
    return data


def read_recipe(written: dict[str, Any], folder: Path) -> ExportedRecipe:
    try:
        return ExportedRecipe.model_validate(written)
    except ValidationError as error:
        raise InputError(*lines_of(load(folder / RECIPE), in_words(error, ExportedRecipe))) from error


def dump_recipe(recipe: ExportedRecipe) -> dict[str, Any]:
    found: dict[str, Any] = recipe.model_dump(mode="json")
    return found


def map_texts(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """Return nested lists and mappings with every text changed; change: (name of its field, text) -> text"""
    if isinstance(value, dict):
        return {name: map_texts(one, change, str(name)) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(one, change, key) for one in value]
    return change(key, value) if isinstance(value, str) else value


def asking_of(written: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in written.items() if name not in {"built", "description"}}

"""Studies without a grid: of systems alone, and of spreadsheets, whose cells are what these have rows of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from rag_assay.assets.embedding.component_embedders import AnyEmbedder
from rag_assay.assets.indexing.index_recipe import IndexRecipe
from rag_assay.assets.recipes.build_half import Chunking, Corpus, Name, absolute
from rag_assay.evals.generation.contract import AnyGenerator
from rag_assay.evals.generation.no_context import ImportedGenerator
from rag_assay.evals.retrieval.contract import Retriever
from rag_assay.evals.spreadsheet_import.bundle import Axes, SheetCell, sheet_cells
from rag_assay.evals.study.cells import AXES, Cell
from rag_assay.evals.study.study import Study
from rag_assay.evals.systems.contract import AnySystem
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.recipe import error_at
from rag_assay.warehouse.source import Source
from rag_assay.warehouse.validation_errors import Finding

if TYPE_CHECKING:
    from rag_assay.evals.study.sections import QuestionSource

GRID = ("chunkings", "embedders", "retrievers")
"""Keys that a study of systems alone does not have."""


class GridlessStudy(Study):
    """A study that has answers without pipelines of its own."""

    judged_alone: ClassVar[bool] = True

    sources: dict[Name, Source] = Field(default_factory=dict)
    corpus: Corpus = Field(default=None)  # type: ignore[assignment] # filled in below
    chunkings: dict[Name, Chunking] = Field(default_factory=dict, max_length=0)
    embedders: dict[Name, AnyEmbedder] = Field(default_factory=dict, max_length=0)
    retrievers: dict[Name, Retriever] = Field(default_factory=dict, max_length=0)

    @model_validator(mode="before")
    @classmethod
    def _has_a_corpus(cls, data: Any) -> Any:
        """Without documents, its name is one that no study file can write, so that nothing is shared."""
        if data.get("corpus") is not None:
            return data
        sources, name = data.get("sources"), data.get("study")
        if isinstance(sources, Mapping) and sources:
            return {**data, "corpus": {"name": name, "sources": [*sources]}}
        empty = Corpus.model_construct(name=f"@{name}", sources=(), near_duplicates=None, index=IndexRecipe())
        return {**data, "corpus": empty}


class SystemStudy(GridlessStudy):
    """A study of systems alone.

    systems: RAG applications of the user's own, each one cell
    sources: the documents that passages are looked for in; default: none, and metrics of rankings are not run
    corpus: default: all sources, by the name of the study
    """

    systems: dict[Name, AnySystem] = Field(min_length=1)

    @model_validator(mode="after")
    def _needs_no_ranking(self) -> Self:
        for name, generator in self.generators.items():
            if generator.reads == "ranking":
                text = f"`{name}` answers from a ranking; give `chunkings`, `embedders` and `retrievers` too"
                raise error_at(("generators", name), text)
        return self


def is_of_systems(data: Mapping[str, Any]) -> bool:
    return "systems" in data and not any(key in data for key in GRID)


IMPORTS = "imports"
"""The key by which a study file says that its answers are those of sheets."""
BUILT = (
    *("sources", "corpus", "chunkings", "embedders", "retrievers"),
    *("generators", "systems", "replicates", "trace"),
)
"""Keys of studies that build and ask; a sheet has the answers already."""
SHEET_CELLS = "sheet_cells"
OF_SHEETS = (*((key,) for key in BUILT), (SHEET_CELLS,))
"""Places of a study file that are filled in from the sheets."""


class ImportedStudy(GridlessStudy):
    """A study that compares the answers of spreadsheets.

    imports: folder of the imported spreadsheets
    """

    imports: str
    sheet_cells: Annotated[tuple[SheetCell, ...], Field(min_length=1)]
    generators: dict[Name, AnyGenerator] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _builds_nothing(cls, data: Any) -> Any:
        names = dict.fromkeys(cell[AXES.index("generator")] for cell in data[SHEET_CELLS])
        kept = {name: value for name, value in data.items() if name not in BUILT}
        return {**kept, "generators": {name: ImportedGenerator() for name in names}}

    @field_validator("questions", mode="after")
    @classmethod
    def _looks_for_no_evidence(cls, value: tuple[QuestionSource, ...]) -> tuple[QuestionSource, ...]:
        return tuple(one if one.evidence else one.model_copy(update={"evidence": "none"}) for one in value)

    @property
    def folder(self) -> Path:
        return self.resolve(self.imports)

    def written(self) -> dict[str, object]:
        return with_axes(super().written(), self.sheet_cells)

    @cached_property
    def every_cell(self) -> tuple[Cell, ...]:
        return tuple(
            Cell(self.study, *one.axes, self._restriction(one.generator).sample, imported=True)
            for one in self.sheet_cells
            if self._restriction(one.generator).allows(one.chunking, one.embedder, one.retriever)
        )

    def times(self, cell: Cell) -> int:
        return self._times[cell.axes]

    @cached_property
    def _times(self) -> dict[Axes, int]:
        return {one.axes: one.replicates for one in self.sheet_cells}


def read_sheet_cells(data: Mapping[str, Any], base: Path) -> tuple[list[SheetCell], list[Finding]]:
    found = [
        Finding((key,), "of_built_study", f"the answers of this study come from sheets: delete `{key}`")
        for key in (*BUILT, SHEET_CELLS)
        if key in data
    ]
    folder = data[IMPORTS]
    if not isinstance(folder, str):
        return [], found  # which its type tells
    try:
        return sheet_cells(absolute(folder, base)), found
    except InputError as error:
        return [], [*found, *(Finding((IMPORTS,), "no_sheet", one) for one in error.findings)]


def with_axes(data: Mapping[str, Any], cells: Sequence[SheetCell]) -> dict[str, Any]:
    named = {f"{axis}s": dict.fromkeys(cell[place] for cell in cells) for place, axis in enumerate(AXES)}
    return {**data, **(named if cells else dict.fromkeys(named))}

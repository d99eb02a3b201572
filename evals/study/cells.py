"""Cells: the combinations of a study's axes, each with its replicates; slices of a study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

MARK = "~"
"""Stands in the names of slices and of their question sets, and in no name that a study file can write."""


def whole_of(name: str) -> str:
    return name.partition(MARK)[0]


@dataclass(frozen=True)
class Layer:
    """Patterns of cells (none: all), and `IDS|N|PATTERN` of questions (None: all)."""

    cells: tuple[str, ...] = ()
    questions: str | None = None

    @property
    def options(self) -> str:
        cells = [f"--cells '{one}'" for one in self.cells]
        return " ".join([*cells, *([f"--questions {self.questions}"] if self.questions else [])])


@dataclass(frozen=True)
class Slice:
    """Cells and test questions of a study, by name and id; None: all."""

    whole: str
    cells: frozenset[str] | None
    questions: frozenset[str] | None
    n_cells: int
    of_cells: int
    n_questions: int
    of_questions: int
    layers: tuple[Layer, ...] = ()

    @property
    def sentence(self) -> str:
        """
        >>> Slice("demo", None, None, 5, 23, 20, 97).sentence
        "A slice of demo: 5 of 23 cells, 20 of 97 questions; not the study's result."
        """
        return (
            f"A slice of {self.whole}: {self.n_cells} of {self.of_cells} cells, "
            f"{self.n_questions} of {self.of_questions} questions; not the study's result."
        )


NO_GENERATOR = "none"
"""The generator's name in the cells of a study that only retrieves."""

UNREAD = "-"
"""The chunking, embedder and retriever of a cell whose generator reads no ranking, and what an imported sheet
does not say; no study can use it."""


AXES = ("chunking", "embedder", "retriever", "generator")


def varying_axes(places: Iterable[Sequence[str | None]]) -> tuple[str, ...]:
    """Return the axes on which cells differ; without any: chunking, retriever and generator."""
    parts = [set(column) - {None} for column in zip(*places, strict=True)]
    varying = tuple(axis for axis, found in zip(AXES, parts, strict=False) if len(found) > 1)
    return varying or ("chunking", "retriever", "generator")


@dataclass(frozen=True, order=True)
class Cell:
    """replicate: from 1; sample: how many questions it is asked, None: all; `-`: it reads no ranking"""

    study: str
    chunking: str
    embedder: str
    retriever: str
    generator: str
    sample: int | None = None
    replicate: int = 1
    imported: bool = False
    is_system: bool = False

    @property
    def has_contexts(self) -> bool:
        """Whether its passages are stored with its answers, and not in a ranking."""
        return self.imported or self.is_system

    @property
    def reads_ranking(self) -> bool:
        return not self.imported and self.retriever != UNREAD

    @property
    def has_axes(self) -> bool:
        return self.imported or self.retriever != UNREAD

    @property
    def axes(self) -> tuple[str, str, str, str]:
        return self.chunking, self.embedder, self.retriever, self.generator

    @property
    def ranking(self) -> str:
        return f"{self.study}.{self.chunking}.{self.embedder}.{self.retriever}"

    @property
    def name(self) -> str:
        return f"{self.ranking}.{self.generator}"

    @property
    def short(self) -> str:
        return self.name.partition(".")[2]

    @property
    def key(self) -> str:
        return self.name if self.replicate == 1 else f"{self.name}.{self.replicate}"

    @property
    def subset(self) -> str:
        return "all" if self.sample is None else f"sample of {self.sample}"

    def replicates(self, times: int) -> list[Cell]:
        return [self, *(replace(self, replicate=number) for number in range(2, times + 1))]


@dataclass(frozen=True)
class JudgedCell:
    """A replicate of a cell with a judge."""

    cell: Cell
    judge: str

    @property
    def key(self) -> str:
        return f"{self.cell.key}.by.{self.judge}"

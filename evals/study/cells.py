"""Cells: the combinations of a study's axes, each with its replicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

NO_GENERATOR = "none"
"""The generator's name in the cells of a study that only retrieves."""

UNREAD = "-"
"""The chunking, embedder and retriever of a cell whose generator reads no ranking, and what an imported sheet
does not say; no study can use it."""


AXES = ("chunking", "embedder", "retriever", "generator")


def varying_axes(places: Iterable[Sequence[str | None]]) -> tuple[str, ...]:
    """Return the axes on which cells differ: what their labels must name.

    Cells that differ on no axis are named by chunking, retriever and generator.

    places: of each cell its parts on `AXES`; None: its generator reads no ranking
    """
    parts = [set(column) - {None} for column in zip(*places, strict=True)]
    varying = tuple(axis for axis, found in zip(AXES, parts, strict=False) if len(found) > 1)
    return varying or ("chunking", "retriever", "generator")


@dataclass(frozen=True, order=True)
class Cell:
    """One combination of a study, asked for the first time or once more; its key is its readable name.

    chunking, embedder, retriever: `-` of a generator that reads no ranking: they are nothing to it
    sample: how many questions it is asked; None: all
    replicate: the how-manieth time it is asked, from 1
    imported: its answers are those of a sheet; its axes say what the sheet says of them
    """

    study: str
    chunking: str
    embedder: str
    retriever: str
    generator: str
    sample: int | None = None
    replicate: int = 1
    imported: bool = False

    @property
    def reads_ranking(self) -> bool:
        """Whether it has a ranking, by which metrics of retrieval can measure it."""
        return not self.imported and self.retriever != UNREAD

    @property
    def has_axes(self) -> bool:
        """Whether chunking, embedder and retriever are something to it, so that cells differ by them."""
        return self.imported or self.retriever != UNREAD

    @property
    def ranking(self) -> str:
        """Key of the ranking that it answers from."""
        return f"{self.study}.{self.chunking}.{self.embedder}.{self.retriever}"

    @property
    def name(self) -> str:
        """What its replicates are together: the key of the first."""
        return f"{self.ranking}.{self.generator}"

    @property
    def short(self) -> str:
        """Its name without the study's."""
        return self.name.partition(".")[2]

    @property
    def key(self) -> str:
        """Its own key, that of its answers and scores.

        >>> cell = Cell("s", "t", "e", "r", "g")
        >>> [one.key for one in cell.replicates(2)]
        ['s.t.e.r.g', 's.t.e.r.g.2']
        """
        return self.name if self.replicate == 1 else f"{self.name}.{self.replicate}"

    @property
    def subset(self) -> str:
        """The name of the questions that it is asked."""
        return "all" if self.sample is None else f"sample of {self.sample}"

    def replicates(self, times: int) -> list[Cell]:
        """Return its replicates from this, the first, on."""
        return [self, *(replace(self, replicate=number) for number in range(2, times + 1))]


@dataclass(frozen=True)
class JudgedCell:
    """One replicate of a cell with one of the judges that judge it."""

    cell: Cell
    judge: str

    @property
    def key(self) -> str:
        """The key of the judgements.

        >>> JudgedCell(Cell("s", "t", "e", "r", "g", replicate=2), "ragas").key
        's.t.e.r.g.2.by.ragas'
        """
        return f"{self.cell.key}.by.{self.judge}"

"""Cells: the combinations of a study's axes."""

from __future__ import annotations

from dataclasses import dataclass

NO_GENERATOR = "none"
"""The generator's name in the cells of a study that only retrieves."""


@dataclass(frozen=True, order=True)
class Cell:
    """One combination of a study; its key is its readable name."""

    study: str
    chunking: str
    embedder: str
    retriever: str
    generator: str
    sample: int | None = None

    @property
    def ranking(self) -> str:
        """Key of the ranking that it answers from."""
        return f"{self.study}.{self.chunking}.{self.embedder}.{self.retriever}"

    @property
    def key(self) -> str:
        """Its own key."""
        return f"{self.ranking}.{self.generator}"

    @property
    def subset(self) -> str:
        """The name of the questions that it is asked."""
        return "all" if self.sample is None else f"sample of {self.sample}"

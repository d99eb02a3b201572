"""Answers that a sheet brings: nothing is asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.generation.contract import Answer, GenerationContext, Generator, Reads, Request
from rag_assay.warehouse.schemas import Status

BY_SHEET = "its answers are those of a sheet"


class ImportedGenerator(Generator):
    """Stands for the model, or whatever it was, whose answers a sheet has; no study file names it.

    passages: those of the sheet, all of them
    """

    kind: ClassVar[str] = "imported"
    reads: ClassVar[Reads] = "imported"
    needs_passages: ClassVar[bool] = False
    writes_markers: ClassVar[bool] = False  # what a number in brackets means to others is not known
    varies: ClassVar[bool] = False

    passages: Annotated[int, Field(ge=0, le=0)] = 0
    context_tokens: None = None

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Answer nothing: a question that the sheet has no row of was not asked."""
        return [Answer(Status.NOT_RUN, BY_SHEET) for _ in requests]

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        """Return nothing: its answers are found by their digest."""
        return []

"""Answers without retrieval: by what a model knows, from the reference passages, or imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from rag_assay.evals.generation.answer_prompt import PromptOptions, Prompts
from rag_assay.evals.generation.contract import Answer, GenerationContext, Generator, Reads, Request
from rag_assay.evals.generation.llm import Llm
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe

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
        return [Answer(Status.NOT_RUN, BY_SHEET) for _ in requests]

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        return []


class OracleContext(Llm):
    """Calls a language model with the reference passages: an upper bound for any retriever.

    passages: how many pieces of evidence it reads
    sufficiency: there is nothing to be searched for
    """

    kind: ClassVar[str] = "oracle_context"
    reads: ClassVar[Reads] = "evidence"

    passages: Annotated[int, Field(ge=1, le=100)] = 20
    sufficiency: None = None


class NoContext(Llm):
    """Calls a language model without passages (closed book).

    passages: it reads none
    context_tokens: it reads none
    sufficiency: there is nothing to be checked
    """

    kind: ClassVar[str] = "no_context"
    reads: ClassVar[Reads] = "nothing"
    needs_passages: ClassVar[bool] = False

    passages: Annotated[int, Field(ge=0, le=0)] = 0
    context_tokens: None = None
    sufficiency: None = None

    @property
    def prompts(self) -> Prompts:
        return Prompts("no_context", self.prompt or PromptOptions())

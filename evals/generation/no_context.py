"""Answers by a language model from what it knows: closed book, without passages."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.evals.generation.answer_prompt import PromptOptions, Prompts
from rag_assay.evals.generation.contract import Reads
from rag_assay.evals.generation.llm import Llm


class NoContext(Llm):
    """Asks a language model without any passage: what it knows without the documents.

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
        """The files that it asks by."""
        return Prompts("no_context", self.prompt or PromptOptions())

"""A generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.generation.contract import Answer, GenerationContext, Generator, Request, citation
from rag_assay.warehouse.schemas import Status


class FirstWords(Generator):
    """Answers with the first words of the first passage.

    words: how many
    """

    kind: ClassVar[str] = "acme_first_words"
    varies: ClassVar[bool] = False
    writes_markers: ClassVar[bool] = False

    words: Annotated[int, Field(ge=1, le=100)] = 8

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Return the first words of each request's first passage."""
        return [self._quote(request, context) for request in requests]

    def _quote(self, request: Request, context: GenerationContext) -> Answer:
        passage = request.passages[0]
        text = " ".join(passage.text.split()[: self.words])
        read, written = context.count_tokens([passage.text, text])
        return Answer(
            Status.OK,
            text=text,
            raw=text,
            seconds=0.0,
            prompt_tokens=read,
            completion_tokens=written,
            usd=0.0,
            cached=False,
            citations=(citation(1, 0, passage, request.language),),
        )

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        """Return nothing: the passages are all that it reads."""
        return []

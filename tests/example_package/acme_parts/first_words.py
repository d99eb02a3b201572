"""A generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from assets.embedding.embedder import EmbedderRecipe
from evals.generating.contract import Answer, GenerationContext, Generator, Request
from warehouse.schemas import Status


class FirstWords(Generator):
    """Answers with the first words of the first passage.

    words: how many
    """

    kind: ClassVar[str] = "acme_first_words"
    varies: ClassVar[bool] = False

    words: Annotated[int, Field(ge=1, le=100)] = 8

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Return the first words of each request's first passage."""
        texts = [" ".join(request.passages[0].text.split()[: self.words]) for request in requests]
        return [
            Answer(Status.OK, text=text, raw=text, seconds=0.0, prompt_tokens=0, completion_tokens=0, usd=0.0)
            for text in texts
        ]

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        """Return nothing: the passages are all that it reads."""
        return []

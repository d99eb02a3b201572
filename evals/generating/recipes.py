"""Generators as a study file says them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from warehouse.inference.chat_model import ChatModel
from warehouse.parts import OneOf, Part
from warehouse.registry import Registry


class Generator(Part):
    """A way to answer a question from passages.

    passages: how many chunks of the ranking it reads
    """

    passages: Annotated[int, Field(ge=1, le=100)] = 5


GENERATORS: Registry[Generator] = Registry("generators", Generator)
AnyGenerator = Annotated[Generator, OneOf(GENERATORS)]
"""A generator as a study writes it: `{kind: {its parameters}}`."""


class Extractive(Generator):
    """Quotes the best sentences of the first passages within a token budget; needs no model but the embedder.

    max_tokens: budget of the answer, by the tokenizer of the embedder
    min_score: below this score of the best sentence it says that the documents do not say; None: never
    """

    kind: ClassVar[str] = "extractive"
    code_version: ClassVar[str] = "2"

    max_tokens: Annotated[int, Field(ge=8, le=4096)] = 80
    min_score: Annotated[float, Field(ge=-1, le=2)] | None = None


class Llm(ChatModel, Generator):
    """Asks a language model through LiteLLM."""

    kind: ClassVar[str] = "llm"

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=8, le=32768)] = 160

"""Generators as a study file says them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from evals.study.findings import instead
from warehouse.parts import OneOf, Part, Registry


class Generator(Part):
    """A way to answer a question from passages.

    passages: how many chunks of the ranking it reads
    """

    passages: Annotated[int, Field(ge=1, le=100)] = 5


GENERATORS: Registry[Generator] = Registry("generator", Generator)
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


class Llm(Generator):
    """Asks a language model through LiteLLM.

    model: a LiteLLM name (`openai/gpt-4o-mini`), or `local/NAME` for a model of the registry
    api_base: address of an OpenAI-compatible server, where it is not the provider's own
    """

    kind: ClassVar[str] = "llm"

    model: Annotated[str, Field(min_length=3)]
    api_base: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=8, le=32768)] = 160

    @field_validator("model")
    @classmethod
    def _is_known_when_local(cls, name: str) -> str:
        from warehouse.inference import models

        if "/" not in name.strip("/"):
            example = "openai/gpt-4o-mini or local/smollm2-135m-instruct"
            raise ValueError(f"a model is written PROVIDER/NAME, as in {example}, not {name!r}")
        known = [f"local/{model.name}" for model in models.known() if model.kind == "llm"]
        if name.startswith("local/") and name not in known:
            raise ValueError(f"unknown local model {name!r}; {instead(name, known)}")
        return name

    @field_validator("api_base")
    @classmethod
    def _is_an_address(cls, address: str | None) -> str | None:
        if address is not None and not address.startswith(("http://", "https://")):
            raise ValueError(
                f"an address begins with http:// or https://, as in http://127.0.0.1:8000/v1, not {address!r}"
            )
        return address

"""A language model as a study names it: who answers, with which parameters, limits, price and budget."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference import models
from rag_assay.warehouse.inference.egress import public
from rag_assay.warehouse.inference.local_llm import servers_at_once
from rag_assay.warehouse.inference.model_servers import LOCAL, address_in, server_of
from rag_assay.warehouse.inference.prices import Price, price_of
from rag_assay.warehouse.inference.redaction import without_key
from rag_assay.warehouse.inference.throttle import AT_ONCE, Pace
from rag_assay.warehouse.recipe import Recipe, Strict, error_at, in_identity
from rag_assay.warehouse.suggestions import did_you_mean

MILLION = 1_000_000


def _is_askable(name: str) -> str:
    if "/" not in name.strip("/"):
        example = "openai/gpt-4o-mini or local/smollm2-135m-instruct"
        raise ValueError(f"a model is written PROVIDER/NAME, as in {example}, not {name!r}")
    if reason := address_in(name):
        raise ValueError(reason)
    known = [LOCAL + model.name for model in models.known() if model.kind == "llm"]
    if name.startswith(LOCAL) and name not in known:
        raise ValueError(f"unknown local model {name!r}; {did_you_mean(name, known)}")
    return name


def _is_address(address: str) -> str:
    try:
        return public(address)
    except ValueError as error:
        raise ValueError(f"{error}, not {without_key(address)!r}") from None


ModelName = Annotated[str, Field(min_length=3, max_length=200), AfterValidator(_is_askable)]
"""A LiteLLM name (`openai/gpt-4o-mini`), or `local/NAME` for a model of the registry that answers."""

Address = Annotated[str, AfterValidator(_is_address)]
"""Of a model server; its user, password and query are carried by requests and stand in no recipe."""


class CallLimits(Strict):
    """How a server is treated.

    timeout: seconds that it may stay silent; default: 120
    retries: further attempts after a transient failure, default: 2; rate limits use up none, unless it is 0
    at_once: calls in flight, default: 32; of a model of this process one for each core, at most four
    requests_per_minute: in any minute; default: no limit but the server's own
    tokens_per_minute: of prompts and answers, in any minute; default: no limit but the server's own

    They hold for the model. The models of one server share the largest numbers among theirs.
    """

    timeout: Annotated[float, Field(gt=0, le=3600)] | None = None
    retries: Annotated[int, Field(ge=0, le=10)] | None = None
    at_once: Annotated[int, Field(ge=1, le=256)] | None = None
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None


class TokenPrice(Strict):
    """US dollars for a million tokens, for a model whose price LiteLLM does not know.

    read: of the prompt
    written: of the answer
    """

    read: Annotated[float, Field(ge=0)]
    written: Annotated[float, Field(ge=0)]


class CallOptions(Recipe):
    """How one language model is called. Parameters that were not given, and those that change no answer
    (limits, price, budget), are left out of identities.

    api_base: address of an OpenAI-compatible server; default: the provider's own
    temperature: default: 0
    max_tokens: of an answer; default: what the task needs
    seed: sent with each call; default: that of the task, if it has one
    limits: timeout, retries, concurrent calls, rates
    price: for a model whose price LiteLLM does not know
    """

    unless_said: ClassVar[frozenset[str]] = frozenset()
    """Parameters of a derived class that are left out likewise, where they are None."""

    api_base: Address | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=8, le=32768)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    limits: CallLimits | None = None
    price: TokenPrice | None = None

    @model_serializer(mode="wrap")
    def _without_defaults(
        self, dump: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        left_out = {name for name in _OPTIONAL | self.unless_said if getattr(self, name, None) is None}
        if in_identity(info):
            left_out |= _WITHOUT_EFFECT
        return {name: value for name, value in dump(self).items() if name not in left_out}


_WITHOUT_EFFECT = {"limits", "price", "budget_usd"}
_OPTIONAL = {"temperature", "max_tokens", "seed", "fallback", *_WITHOUT_EFFECT}


class Fallback(CallOptions):
    """A further model, which is called if those before it cannot answer.

    model: a LiteLLM name, or `local/NAME` for a model of the registry
    api_base: address of its server; default: the provider's own, not that of the first model
    temperature, max_tokens, seed, limits: default: those of the first model
    """

    model: ModelName


def _written_out(written: object) -> object:
    return {"model": written} if isinstance(written, str) else written


FallbackModel = Annotated[Fallback, BeforeValidator(_written_out)]


class ChatOptions(CallOptions):
    """How a language model is called, and what is called if it cannot answer.

    fallback: further models in order, each a name or a mapping; the next is called if one cannot be reached,
        refuses its key, or fails permanently by an error, a rate limit or silence
    """

    fallback: Annotated[tuple[FallbackModel, ...], Field(max_length=10)] | None = None

    @model_validator(mode="after")
    def _names_each_model_once(self) -> Self:
        if self.fallback == ():
            raise error_at(("fallback",), "name further models, or leave it out")
        first = getattr(self, "model", None)
        known = {(first, server_of(first, self.api_base))} if first else set()
        for place, one in enumerate(self.fallback or ()):
            asked = one.model, server_of(one.model, one.api_base)
            if asked in known:
                reason = f"{one.model!r} stands before it in this list, which falls back on other models"
                raise error_at(("fallback", place, "model"), reason)
            known.add(asked)
        return self


class ChatModel(ChatOptions):
    """A language model, how it is called, and what it may cost.

    model: a LiteLLM name (`openai/gpt-4o-mini`), or `local/NAME` for a model of the registry
    budget_usd: no more calls are made once that much was spent in one run; default: no limit of its own
    """

    model: ModelName
    budget_usd: Annotated[float, Field(ge=0)] | None = None

    def ranked(self) -> tuple[ChatModel, ...]:
        return (self, *map(self._next, self.fallback or ()))

    def _next(self, other: Fallback) -> ChatModel:
        shared = {name: getattr(self, name) for name in ("temperature", "max_tokens", "seed", "limits")}
        own = {name: getattr(other, name) for name in CallOptions.model_fields}
        return ChatModel(
            model=other.model,
            **{name: shared.get(name) if value is None else value for name, value in own.items()},
        )

    @property
    def is_local(self) -> bool:
        return self.model.startswith(LOCAL)

    @property
    def at_once(self) -> int:
        most = (self.limits and self.limits.at_once) or AT_ONCE
        return min(most, servers_at_once()) if self.is_local else most

    @property
    def pace(self) -> Pace:
        limits = self.limits or CallLimits()
        return Pace(self.at_once, limits.requests_per_minute, limits.tokens_per_minute)

    def served_by(self) -> str | None:
        """Digest of who answers beside the recipe (local files, a server of the environment)."""
        if self.fallback:
            return digest([_served_by(one.model, one.api_base) for one in self.ranked()])
        return _served_by(self.model, self.api_base)

    def token_price(self) -> Price | None:
        if self.price is not None:
            return Price(self.price.read / MILLION, self.price.written / MILLION)
        return price_of(self.model)


def _served_by(model: str, api_base: str | None) -> str | None:
    if model.startswith(LOCAL):
        return models.digest(model.removeprefix(LOCAL))
    server = server_of(model, api_base)
    return digest(["server", server]) if server and not api_base else None

"""Requests to language models and their replies, typed, and as rows of the call cache."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.identity import digest_canonical
from rag_assay.warehouse.inference.model_servers import litellm
from rag_assay.warehouse.inference.prices import Price, is_priced
from rag_assay.warehouse.inference.redaction import (
    encode_without_secrets,
    one_line,
    without_key,
    without_secrets,
)
from rag_assay.warehouse.json_encoder import json_encoder
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.call_tags import Purpose
    from rag_assay.warehouse.inference.streaming import Drafting

FirstTokens = tuple[tuple[str, float], ...]
"""Tokens with the natural logarithm of their probability, likeliest first, each once."""

MOST_KEPT = 100
LONGEST_TOKEN = 100  # characters
_ROUNDED = 1e-3  # a server's logarithm of a probability of 1 may lie so much above 0


def first_tokens(choice: object) -> FirstTokens | None:
    """Return the likeliest first tokens of a choice of a chat completion; None where it gives none. Servers
    write them in two ways; what is no logarithm of a probability is left out.

    >>> first_tokens({"logprobs": {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": [
    ...     {"token": "No", "logprob": -2.5}, {"token": "Yes", "logprob": -0.1}]}]}})
    (('Yes', -0.1), ('No', -2.5))
    >>> first_tokens({"logprobs": {"tokens": ["Yes"], "top_logprobs": [{"Yes": -0.1, "No": -2.5}]}})
    (('Yes', -0.1), ('No', -2.5))
    """
    given = choice.get("logprobs") if isinstance(choice, Mapping) else None
    if not isinstance(given, Mapping):
        return None
    read = {
        encodable(token[:LONGEST_TOKEN]): min(float(chance), 0.0)
        for token, chance in _written(given)
        if isinstance(token, str) and token and _is_logarithm(chance)
    }
    found = sorted(read.items(), key=lambda pair: -pair[1])
    return tuple(found[:MOST_KEPT]) or None


def _written(given: Mapping[str, Any]) -> Iterable[tuple[object, Any]]:
    content = _first(given.get("content"))
    if isinstance(content, Mapping):
        rivals = content.get("top_logprobs")
        for one in [content, *(rivals if isinstance(rivals, list) else [])]:
            if isinstance(one, Mapping):
                yield one.get("token"), one.get("logprob")
        return
    yield _first(given.get("tokens")), _first(given.get("token_logprobs"))
    beside = _first(given.get("top_logprobs"))
    if isinstance(beside, Mapping):
        yield from beside.items()


def _first(values: object) -> object:
    return values[0] if isinstance(values, list) and values else None


def _is_logarithm(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value <= _ROUNDED  # type: ignore[arg-type, operator]


Number = TypeVar("Number", int, float)
_canonical = json_encoder(sort_keys=True, separators=(",", ":"))
_public = lru_cache(256)(without_key)
_LATER = {"queued", "retries"}  # records from before have not
_OF_REPLY = (
    *("call_id", "reason", "prompt_tokens", "completion_tokens", "seconds", "queued", "retries", "usd"),
    *("text", "raw"),
)
MOST_TOKENS = 1 << 31  # a server that counts more than that, or less than none, counts wrongly


@dataclass(frozen=True)
class Reply:
    """What one call gave.

    reason: why the status is not `ok`, in one line
    text: stripped; raw: untouched, None when nothing came
    seconds: of the attempt that computed it; queued: seconds until it began; retries: attempts before it
    prompt_tokens, completion_tokens, usd: None where not known; usd is 0 for a local model
    """

    status: Status
    reason: str | None
    call_id: str
    model: str
    text: str = ""
    raw: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    usd: float | None = None
    cached: bool = False
    queued: float = 0.0
    retries: int = 0
    first_tokens: FirstTokens | None = None

    @property
    def tokens(self) -> int | None:
        known = [count for count in (self.prompt_tokens, self.completion_tokens) if count is not None]
        return sum(known) if known else None


@dataclass(frozen=True)
class Completion:
    """What a server gave back; ``response``: the whole as JSON, ``priced``: what LiteLLM prices."""

    content: str | None
    finish_reason: str | None
    refusal: str | None
    prompt_tokens: object
    completion_tokens: object
    response: str
    priced: Any
    first_tokens: FirstTokens | None = None

    @property
    def tokens(self) -> int | None:
        counts = _count(self.prompt_tokens), _count(self.completion_tokens)
        return None if None in counts else sum(one or 0 for one in counts)


@dataclass(frozen=True)
class Call:
    """All that decides what comes back; ``id`` is the digest of ``request``, its canonical JSON."""

    model: str
    weights: str | None  # digest of a local model's files, with what runs them
    api_base: str | None
    messages: list[dict[str, str]]
    temperature: float
    max_tokens: int
    seed: int | None
    response_format: dict[str, Any] | None
    replicate: int
    top_logprobs: int | None = None
    request: str = field(init=False, repr=False)
    id: str = field(init=False)

    @property
    def is_local(self) -> bool:
        return self.weights is not None

    def __post_init__(self) -> None:
        names = [name for name in _PARTS if name != "top_logprobs" or self.top_logprobs is not None]
        request = _canonical({name: getattr(self, name) for name in names})
        object.__setattr__(self, "request", request)
        object.__setattr__(self, "id", digest_canonical(request))


_PARTS = [one.name for one in fields(Call) if one.init]


def read_litellm(response: Any) -> Completion:
    """Raises NoCompletionError: it is not shaped like a completion."""
    try:
        choice = response.choices[0]
        fields = getattr(choice.message, "provider_specific_fields", None) or {}
        usage = getattr(response, "usage", None)
        whole = without_secrets(response.model_dump())
        return Completion(
            content=without_secrets(choice.message.content),
            finish_reason=choice.finish_reason,
            refusal=getattr(choice.message, "refusal", None) or fields.get("refusal"),
            prompt_tokens=getattr(usage, "prompt_tokens", None),
            completion_tokens=getattr(usage, "completion_tokens", None),
            response=json.dumps(whole, default=str),
            priced=response,
            first_tokens=first_tokens(whole["choices"][0]),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        from rag_assay.warehouse.inference.chat_completions import NoCompletionError

        raise NoCompletionError(f"The server's answer is not a chat completion ({error}).") from error


def read_json(response: dict[str, Any]) -> Completion:
    """Raises NoCompletionError: it is not shaped like a completion."""
    try:
        response, whole = encode_without_secrets(response)
        choice = response["choices"][0]
        message, usage = choice["message"], response.get("usage") or {}
        content, refusal = message.get("content"), message.get("refusal")
        _check("content", content, str)
        for name in ("prompt_tokens", "completion_tokens"):
            _check(name, usage.get(name), int)
        return Completion(
            content=content,
            finish_reason=choice.get("finish_reason"),
            refusal=None if refusal is None else str(refusal),
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            response=whole,
            priced=response,
            first_tokens=first_tokens(choice),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | AttributeError) else error
        from rag_assay.warehouse.inference.chat_completions import NoCompletionError

        raise NoCompletionError(f"The server's answer is not a chat completion ({reason}).") from error


def _check(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name}: {str(value)[:40]!r} is not of type {kind.__name__}")


def reply_of(
    call: Call,
    completion: Completion,
    token_price: Price | None = None,
    *,
    seconds: float,
    queued: float,
    retries: int,
) -> Reply:
    """Turn what a server gave back into a reply; ``token_price`` replaces what LiteLLM knows."""
    raw = None if completion.content is None else encodable(completion.content)
    text = (raw or "").strip()
    status, reason = _outcome(text, completion.finish_reason, completion.refusal, call.max_tokens)
    read = _count(completion.prompt_tokens) or None  # LiteLLM says 0 where the server counts none
    written = _count(completion.completion_tokens) if read else None
    return Reply(
        status=status,
        reason=reason,
        text=text,
        raw=raw,
        prompt_tokens=read,
        completion_tokens=written,
        seconds=seconds,
        queued=queued,
        retries=retries,
        usd=_cost(call, completion.priced, (read, written), token_price),
        call_id=call.id,
        model=call.model,
        first_tokens=completion.first_tokens if call.top_logprobs else None,
    )


def _cost(
    call: Call, priced: Any, tokens: tuple[int | None, int | None], token_price: Price | None
) -> float | None:
    read, written = tokens
    if call.is_local:
        return 0.0
    if read is None or written is None:
        return None
    if token_price is not None:
        return read * token_price.read + written * token_price.written
    return None if priced is None else price(call.model, priced)


def _outcome(text: str, finish: str | None, refusal: str | None, limit: int) -> tuple[Status, str | None]:
    if finish == "content_filter":
        return Status.REFUSED, "The server's content filter stopped the answer."
    if refusal and not text:
        return Status.REFUSED, one_line(f"The model refused: {refusal}")
    if finish == "length":
        return (
            Status.TRUNCATED,
            f"The answer was cut at the limit (max_tokens {limit}, or the model's context).",
        )
    if not text:
        return Status.PARSE_FAILED, "The model gave an empty text."
    return Status.OK, None


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < MOST_TOKENS else None


def price(model: str, response: Any) -> float | None:
    if isinstance(response, dict) and not is_priced(model, str(response.get("model"))):
        return None
    with suppress(Exception):  # unknown models raise one of several errors
        return float(litellm().completion_cost(completion_response=response, model=model))
    return None


def together(replies: Sequence[Reply]) -> Reply:
    """Return the last reply with the costs of all: unknown if one is, cached if all are."""
    raws = [reply.raw for reply in replies if reply.raw is not None]
    return replace(
        replies[-1],
        raw=raws[-1] if raws else None,
        prompt_tokens=sum_of_known(reply.prompt_tokens for reply in replies),
        completion_tokens=sum_of_known(reply.completion_tokens for reply in replies),
        seconds=sum(reply.seconds for reply in replies),
        usd=sum_of_known(reply.usd for reply in replies),
        cached=all(reply.cached for reply in replies),
        queued=sum(reply.queued for reply in replies),
        retries=sum(reply.retries for reply in replies),
    )


def sum_of_known(values: Iterable[Number | None]) -> Number | None:
    """Add numbers; None where one of them is not known.

    >>> sum_of_known([1, 2]), sum_of_known([1, None])
    (3, None)
    """
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def failure(call: Call, status: Status, reason: str) -> Reply:
    return Reply(status=status, reason=one_line(reason), call_id=call.id, model=call.model)


def failed_reply(reply: Reply, drafting: Drafting | None) -> Reply:
    if drafting is None or not drafting.partial:
        return reply
    partial = encodable(without_secrets(drafting.partial))
    reason = "it was cancelled by every caller" if reply.status is Status.NOT_RUN else reply.reason
    return replace(
        reply, raw=partial, reason=f"the answer broke off after {len(partial):,} characters: {reason}"
    )


def record_of(
    call: Call, reply: Reply, response: str | None, purpose: Purpose | None = None
) -> dict[str, Any]:
    public = call.api_base and _public(call.api_base)
    request = (call if public == call.api_base else replace(call, api_base=public)).request
    return {
        **{name: getattr(reply, name) for name in _OF_REPLY},
        "model": call.model,
        "status": reply.status.value,
        "request": request,
        "response": response,
        "created_at": datetime.now(UTC).isoformat(),
        "purpose": purpose.task if purpose else None,
        **{name: getattr(purpose, name, None) for name in ("study", "cell", "question")},
        **({} if reply.first_tokens is None else {"first_tokens": reply.first_tokens}),
    }


def from_record(record: dict[str, Any] | None) -> Reply | None:
    if record is None:
        return None
    own = {"status", "cached", "first_tokens"} | {name for name in _LATER if record.get(name) is None}
    try:
        fields = {name: record[name] for name in Reply.__dataclass_fields__ if name not in own}
        told = record.get("first_tokens")
        tokens = tuple((str(one), float(chance)) for one, chance in told) if isinstance(told, list) else None
        return Reply(status=Status(record["status"]), cached=True, first_tokens=tokens, **fields)
    except (KeyError, TypeError, ValueError):
        return None

"""Makes one call: through which client, at which pace, in how many attempts."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

import httpx

from rag_assay.warehouse.cancellation import CancelledError, cancellable_sleep, is_cancelled
from rag_assay.warehouse.inference import call_failures, chat_completions, chat_streams
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.egress import only_to
from rag_assay.warehouse.inference.model_servers import litellm, permitted, placeholder_key, without_none
from rag_assay.warehouse.inference.prices import Price
from rag_assay.warehouse.inference.replies import Call, Completion, read_json, read_litellm
from rag_assay.warehouse.inference.streaming import Drafting, heard
from rag_assay.warehouse.inference.throttle import (
    PATIENCE,
    LeftAloneError,
    Pace,
    Throttle,
    Ticket,
    throttle_of,
)


def _complete_by_litellm(request: dict[str, Any], drafting: Drafting) -> Completion:
    """Raises NoCompletionError."""
    stream = litellm().completion(**request, stream=True, stream_options={"include_usage": True})
    has_text = False
    for chunk in stream:
        text = _text(chunk)
        has_text = has_text or bool(text)
        drafting.add(text)
        if is_cancelled():
            raise CancelledError
    if not has_text:  # a refusal stands elsewhere, and a provider may not stream: the whole says
        return read_litellm(litellm().completion(**request))
    if stream.received_finish_reason is None:
        raise httpx.RemoteProtocolError("the stream ended before the answer did")
    whole = litellm().stream_chunk_builder(stream.chunks)
    if not any(getattr(chunk, "usage", None) for chunk in stream.chunks):
        whole.usage = None
    return read_litellm(whole)


def _text(chunk: Any) -> str:
    choices = getattr(chunk, "choices", None)
    text = getattr(choices[0].delta, "content", None) if choices else None
    return text if isinstance(text, str) else ""


Response = TypeVar("Response")


class Attempted(NamedTuple, Generic[Response]):
    """How a call ended: with a response, or with the error of its last attempt.

    seconds: of the last attempt; queued: until it began; retries: attempts before it
    """

    response: Response | None
    error: Exception | None
    seconds: float
    queued: float
    retries: int


def send_with_retries(
    send: Callable[[], Response],
    throttle: Throttle,
    ticket: Ticket,
    retries: int,
    *,
    asked_at: float,
    tokens_of: Callable[[Response], int | None] = lambda _response: None,
) -> Attempted[Response]:
    """Send a request until it is answered, or fails for good. A rate limit is waited out without using
    retries, unless there are none or PATIENCE seconds have passed.

    retries: further attempts after a passing fault; asked_at: by `perf_counter`
    Raises LeftAloneError: no attempt was made, for the server has long refused all calls.
    """
    faults = attempts = 0
    waited = 0.0
    ended: Attempted[Response] | None = None
    while True:
        try:
            with throttle.passed(ticket):
                begin = perf_counter()
                try:
                    response = send()
                except CancelledError:
                    throttle.failed(ticket)
                    raise
                except Exception as error:  # LiteLLM's own, openai's, httpx's and plain Python errors
                    ended = Attempted(None, error, perf_counter() - begin, begin - asked_at, attempts)
                    fault = call_failures.fault_of(error)
                    throttle.failed(ticket)
                else:
                    throttle.answered(ticket, tokens_of(response))
                    return Attempted(response, None, perf_counter() - begin, begin - asked_at, attempts)
                is_limit = fault.is_limit
                wait = (
                    throttle.limited(ticket, fault.retry_after)
                    if is_limit
                    else throttle.backoff(ticket, faults, was_dropped=isinstance(ended.error, _DROPPED))
                )
                waited += wait * is_limit
                faults += not is_limit
                if not fault.is_passing or not retries or waited > PATIENCE or faults > retries:
                    return ended
                if fault.is_limit:
                    cancellable_sleep(wait)  # in its slot
        except LeftAloneError:
            if ended is None:
                raise
            return ended
        attempts += 1
        if not fault.is_limit:
            cancellable_sleep(wait)


_DROPPED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
LETTERS_A_TOKEN = 4  # about, until the server has counted


class CallPolicy(NamedTuple):
    """How a call is made and paid, which changes nothing of its answer.

    timeout: seconds of silence; asked_at: by `perf_counter`; drafting: told what the model writes, as it
        comes
    send: sends it once, in place of a chat completion
    """

    timeout: float
    retries: int
    price: Price | None
    pace: Pace
    purpose: Purpose | None
    asked_at: float
    drafting: Drafting | None = None
    send: Callable[[], Completion] | None = None


class CallTarget(NamedTuple):
    """Where a call goes: the model's name there, and the server's address and key where they are its own."""

    model: str
    api_base: str | None = None
    api_key: str | None = None


def send_call(call: Call, place: CallTarget, terms: CallPolicy) -> Attempted[Completion]:
    """Raises LeftAloneError: no request was sent, for the server is to be left alone."""
    letters = sum(len(one["content"]) for one in call.messages)
    drafting = terms.drafting

    def send() -> Completion:
        if terms.send is not None:
            return terms.send()
        if drafting is None:
            return _completion(call, place, terms.timeout)
        return heard(lambda: _completion(call, place, terms.timeout, drafting), drafting)

    return send_with_retries(
        send,
        throttle_of(place.api_base or place.model.partition("/")[0]),
        Ticket(place.model, terms.pace, letters // LETTERS_A_TOKEN + call.max_tokens),
        terms.retries,
        asked_at=terms.asked_at,
        tokens_of=lambda completion: completion.tokens,
    )


def _completion(
    call: Call, place: CallTarget, timeout: float, drafting: Drafting | None = None
) -> Completion:
    request: dict[str, Any] = {
        "messages": call.messages,
        "temperature": call.temperature,
        "max_tokens": call.max_tokens,
        **without_none(seed=call.seed, response_format=call.response_format),
        **({} if call.top_logprobs is None else {"logprobs": True, "top_logprobs": call.top_logprobs}),
    }
    key = place.api_key or placeholder_key(place.model, place.api_base)
    with only_to(permitted(place.model, place.api_base)):
        if chat_completions.is_plain(place.model):
            request["model"] = place.model.partition("/")[2]
            if drafting is None:
                return read_json(chat_completions.complete(request, place.api_base, key, timeout))
            return read_json(chat_streams.complete(request, place.api_base, key, timeout, drafting))
        request |= {
            "model": place.model,
            "timeout": timeout,
            "num_retries": 0,  # retried here, where Retry-After and the reply's seconds are in hand
            "max_retries": 0,
            **without_none(api_base=place.api_base, api_key=key),
        }
        if drafting is not None:
            return _complete_by_litellm(request, drafting)
        return read_litellm(litellm().completion(**request))

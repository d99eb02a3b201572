"""Makes one call: through which client, at which pace, in how many attempts."""

from __future__ import annotations

from typing import Any, NamedTuple

from rag_assay.warehouse.inference import chat_completions, chat_streams, litellm_streams
from rag_assay.warehouse.inference.attempts import Attempted, send_with_retries
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.egress import only_to
from rag_assay.warehouse.inference.model_servers import litellm, permitted, placeholder_key, without_none
from rag_assay.warehouse.inference.prices import Price
from rag_assay.warehouse.inference.replies import Call, Completion, read_json, read_litellm
from rag_assay.warehouse.inference.streaming import Drafting, heard
from rag_assay.warehouse.inference.throttle import Pace, Ticket, throttle_of

LETTERS_A_TOKEN = 4  # about, until the server has counted


class CallPolicy(NamedTuple):
    """How a call is made and paid, which changes nothing of its answer.

    timeout: seconds that the server may stay silent
    asked_at: when it was asked for, by `perf_counter`
    drafting: told what the model writes, as it comes; None: nobody listens
    """

    timeout: float
    retries: int
    price: Price | None
    pace: Pace
    purpose: Purpose | None
    asked_at: float
    drafting: Drafting | None = None


class CallTarget(NamedTuple):
    """Where a call goes: the model's name there, and the server's address and key where they are its own."""

    model: str
    api_base: str | None = None
    api_key: str | None = None


def send_call(call: Call, place: CallTarget, terms: CallPolicy) -> Attempted[Completion]:
    """Send a call until it is answered, or fails for good.

    Raises:
        LeftAloneError: no request was sent, for the server is to be left alone.
        UnwantedError: nobody wants the call any more.
    """
    letters = sum(len(one["content"]) for one in call.messages)
    drafting = terms.drafting

    def send() -> Completion:
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
    """Send a call once, to its model's server and no other one.

    drafting: told what comes, as it comes
    """
    with only_to(permitted(place.model, place.api_base)):
        return _sent(call, place, timeout, drafting)


def _sent(call: Call, place: CallTarget, timeout: float, drafting: Drafting | None) -> Completion:
    request: dict[str, Any] = {
        "messages": call.messages,
        "temperature": call.temperature,
        "max_tokens": call.max_tokens,
        **without_none(seed=call.seed, response_format=call.response_format),
        **({} if call.top_logprobs is None else {"logprobs": True, "top_logprobs": call.top_logprobs}),
    }
    key = place.api_key or placeholder_key(place.model, place.api_base)
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
        return litellm_streams.complete(request, drafting)
    return read_litellm(litellm().completion(**request))

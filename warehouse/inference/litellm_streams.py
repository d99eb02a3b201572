"""Completions of LiteLLM's providers as they are written.

LiteLLM makes up what a stream lacks: a finish reason where it broke off, token counts where nobody counted,
an empty text where the provider does not stream. None of that may pass for what the provider gave.
"""

from __future__ import annotations

from typing import Any

import httpx

from rag_assay.warehouse.cancellation import CancelledError, is_cancelled
from rag_assay.warehouse.inference.model_servers import litellm
from rag_assay.warehouse.inference.replies import Completion, read_litellm
from rag_assay.warehouse.inference.streaming import Drafting


def complete(request: dict[str, Any], drafting: Drafting) -> Completion:
    """Send a request through LiteLLM, and add to a draft what comes; whole where the provider cannot stream.

    request: the arguments of `litellm.completion`

    Raises:
        NoCompletionError: what came is no completion.
        UnwantedError: nobody wants it any more.
        Exception: LiteLLM's own, and `httpx.RemoteProtocolError` for a stream that ends before the answer.
    """
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

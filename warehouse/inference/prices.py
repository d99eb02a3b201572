"""Prices of tokens by LiteLLM's bundled price map; nothing is fetched."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import NamedTuple

from warehouse.inference.model_servers import LOCAL, litellm

SOME = 1_000  # tokens that a price is asked for


class Price(NamedTuple):
    """US dollars for one token that is read, and for one that is written."""

    read: float
    written: float


def price_of(model: str, *, embeds: bool = False) -> Price | None:
    """Return what a model's tokens cost; a local model's nothing; None: LiteLLM knows no price.

    >>> price_of("local/smollm2-135m-instruct")
    Price(read=0.0, written=0.0)
    >>> price_of("openai/a-model-of-my-own") is None
    True
    """
    if model.startswith(LOCAL):
        return Price(0.0, 0.0)
    kind = "embedding" if embeds else "completion"
    try:
        with redirect_stdout(StringIO()):  # it prints advice
            read, written = litellm().cost_per_token(
                model=model, prompt_tokens=SOME, completion_tokens=0 if embeds else SOME, call_type=kind
            )
    except Exception:  # its own classes; each says that the model is not in its map
        return None
    return Price(float(read) / SOME, float(written) / SOME)

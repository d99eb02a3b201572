"""Prices of tokens by LiteLLM's bundled price map; nothing is fetched."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from rag_assay.warehouse.inference.model_servers import LOCAL, litellm

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


def is_priced(*models: str) -> bool:
    """Return whether LiteLLM may know a price by one of these names, without its import, which takes seconds.

    >>> is_priced("openai/gpt-4o-mini"), is_priced("openai/a-model-of-my-own")
    (True, False)
    """
    known = _prices()
    names = {part.lower() for model in models for part in (model, model.rpartition("/")[2])}
    return known is None or any(name in known or "ft:" in name for name in names)


def bundled_price(model: str) -> Price | None:
    """Read without importing LiteLLM; None: its bundled map has no price by this name."""
    found = (_prices() or {}).get(model.lower(), {})
    read, written = found.get("input_cost_per_token"), found.get("output_cost_per_token")
    return None if read is None or written is None else Price(float(read), float(written))


@cache
def _prices() -> dict[str, dict[str, Any]] | None:
    found = find_spec("litellm")
    path = Path(found.origin or "").parent / "model_prices_and_context_window_backup.json" if found else None
    if path is None or not path.is_file():
        return None
    return {name.lower(): facts for name, facts in json.loads(path.read_bytes()).items()}

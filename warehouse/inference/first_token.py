"""Which tokens an answer could have begun with, and how likely each is: what servers call `logprobs`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rag_assay.warehouse.encodable import encodable

FirstTokens = tuple[tuple[str, float], ...]
"""Tokens with the natural logarithm of their probability, likeliest first, each once."""

MOST_KEPT = 100
LONGEST_TOKEN = 100  # characters
_ROUNDED = 1e-3  # a server's logarithm of a probability of 1 may lie so much above 0


def first_tokens(choice: object) -> FirstTokens | None:
    """Return the likeliest first tokens of a choice of a chat completion; None where it gives none.

    Servers write them in two ways: a list of tokens, each with its rivals, or lists beside each other, of
    which `top_logprobs` has a mapping for each token. What is no logarithm of a probability is left out.

    >>> first_tokens({"logprobs": {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": [
    ...     {"token": "No", "logprob": -2.5}, {"token": "Yes", "logprob": -0.1}]}]}})
    (('Yes', -0.1), ('No', -2.5))
    >>> first_tokens({"logprobs": {"tokens": ["Yes"], "top_logprobs": [{"Yes": -0.1, "No": -2.5}]}})
    (('Yes', -0.1), ('No', -2.5))
    """
    given = choice.get("logprobs") if isinstance(choice, Mapping) else None
    if not isinstance(given, Mapping):
        return None
    read = dict(_pairs(given))
    found = sorted(read.items(), key=lambda pair: -pair[1])
    return tuple(found[:MOST_KEPT]) or None


def kept_tokens(recorded: object) -> FirstTokens | None:
    """Return the tokens that a record has as lists of JSON; None where there are none."""
    if not isinstance(recorded, list):
        return None
    return tuple((str(token), float(chance)) for token, chance in recorded)


def _pairs(given: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    for token, chance in _written(given):
        if isinstance(token, str) and token and _is_logarithm(chance):
            yield encodable(token[:LONGEST_TOKEN]), min(float(chance), 0.0)


def _written(given: Mapping[str, Any]) -> Iterable[tuple[object, Any]]:
    """Yield tokens and logarithms as the server wrote them."""
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

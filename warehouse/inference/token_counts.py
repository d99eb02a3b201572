"""How many tokens a text has for a model, without a request: by its vocabulary, tiktoken, or a bound."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from rag_assay.warehouse.inference.model_servers import LOCAL, litellm

FRAMING = 8  # tokens that a chat template puts around a message, at most; as many begin the answer
BYTES_PER_TOKEN = 2  # of UTF-8, where a model's own tokenizer is not at hand
_OPENAI = "openai/"


def most_tokens(texts: Sequence[str]) -> int:
    """Return what messages have at most by any tokenizer: a token is a byte or more.

    >>> most_tokens(["Größe", "a"])
    32
    """
    return sum(len(text.encode()) + FRAMING for text in texts) + FRAMING


def estimated_tokens(model: str, texts: Sequence[str]) -> int:
    """Return how many tokens messages have for an API's model: by its own tokenizer, or a bound."""
    encoding = _encoding(model)
    if encoding is None:
        counts = [math.ceil(len(text.encode()) / BYTES_PER_TOKEN) for text in texts]
    else:
        counts = [len(encoding.encode(text, disallowed_special=())) for text in texts]
    return sum(counts) + FRAMING * (len(texts) + 1)


def local_tokens(api_base: str, api_key: str, texts: Sequence[str]) -> int:
    url = api_base.removesuffix("/v1") + "/tokenize"
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    found = 0
    for text in texts:
        body = json.dumps({"content": text}).encode()
        import urllib.request

        request = urllib.request.Request(url, body, headers)  # noqa: S310 -- our own server on loopback
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            found += len(json.load(reply)["tokens"])
    return found + FRAMING * (len(texts) + 1)


@cache
def known_window(model: str) -> int | None:
    """Return how many tokens an API's model reads by LiteLLM's map; None where that does not know it.

    >>> known_window("openai/gpt-4o-mini"), known_window("openai/a-model-of-my-own")
    (128000, None)
    """
    if model.startswith(LOCAL):
        return None
    with suppress(Exception), redirect_stdout(StringIO()):  # its own classes, and advice
        found = litellm().get_model_info(model).get("max_input_tokens")
        return int(found) if found else None
    return None


@cache
def _encoding(model: str) -> Any:
    if not model.startswith(_OPENAI):
        return None
    import tiktoken

    folder = Path(litellm().__file__).parent / "litellm_core_utils" / "tokenizers"
    try:
        name = tiktoken.encoding_name_for_model(model.removeprefix(_OPENAI))
    except KeyError:  # a model of that name is none of OpenAI's
        return None
    address = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    if not (folder / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()).is_file():
        return None
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))
    with suppress(Exception):  # another folder is set, which lacks it
        return tiktoken.get_encoding(name)
    return None

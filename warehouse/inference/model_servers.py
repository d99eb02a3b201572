"""Which server and key LiteLLM uses for a model name."""

from __future__ import annotations

import os
import re
import warnings
from contextlib import redirect_stdout, suppress
from functools import lru_cache
from io import StringIO
from typing import Any

from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.egress import (
    Destination,
    guard_litellm,
    is_allowed,
    origin,
    public,
    request_context,
)
from rag_assay.warehouse.inference.redaction import without_key

LOCAL = "local/"  # models of the registry, served in this process

_ADDRESS = re.compile(
    r"://|%3a(?:%2f|/){2}|:%2f|^[^/]+/https?:"
    r"|(?:^|[/@])(?:localhost|\[[0-9a-f:.%]+\]|[\w-]+(?:\.[\w-]+)+):\d{2,5}(?=$|[/?#])",
    re.IGNORECASE,
)
_ORIGINS = {
    "openai": ("https://api.openai.com",),
    "anthropic": ("https://api.anthropic.com",),
    "anthropic_text": ("https://api.anthropic.com",),
    "gemini": ("https://generativelanguage.googleapis.com",),
    "cohere": ("https://api.cohere.ai", "https://api.cohere.com"),
    "cohere_chat": ("https://api.cohere.ai", "https://api.cohere.com"),
    "huggingface": ("https://router.huggingface.co",),
    "openrouter": ("https://openrouter.ai",),
    "replicate": ("https://api.replicate.com",),
    "voyage": ("https://api.voyageai.com",),
    "watsonx": ("https://us-south.ml.cloud.ibm.com", "https://iam.cloud.ibm.com"),
}
"""Of providers whose server LiteLLM keeps to itself; it tells those of the others."""

_REGIONAL = {  # provider -> address, environment variables with the region, the default region
    "bedrock": ("https://bedrock-runtime.{}.amazonaws.com", ("AWS_REGION_NAME", "AWS_REGION"), "us-west-2"),
    "vertex_ai": ("https://{}-aiplatform.googleapis.com", ("VERTEXAI_LOCATION",), "us-central1"),
}
_REGION = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-?\d+")
_SAME = {"ollama_chat": "ollama"}  # takes the environment's address of another provider
_ASKS_AT_ONCE = {"github_copilot", "chatgpt"}  # LiteLLM signs in to these when it is asked where they are


class UnknownServerError(AssayError):
    """Where a model's requests would go cannot be known, so none is sent."""


def litellm() -> Any:
    # Else its import asks the network for prices
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm as module

    from rag_assay.warehouse.inference.http_limits import limit_litellm

    # Odd numbers in a reply make Pydantic warn on the terminal; what is wrong is the call's reason.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    module.suppress_debug_info = True  # else each failure prints advice to stdout
    limit_litellm(module)
    guard_litellm(module)
    return module


def without_none(**arguments: object) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if value is not None}


def server_of(model: str, api_base: str | None) -> str | None:
    """None: the provider's own server, or this process."""
    if model.startswith(LOCAL):
        return None
    base = api_base
    if not base:
        provider = re.sub(r"\W", "_", model.partition("/")[0]).upper() if "/" in model else "OPENAI"
        base = os.environ.get(f"{provider}_BASE_URL") or os.environ.get(f"{provider}_API_BASE")
    if not base:
        return None
    with suppress(ValueError):  # what is no address is refused where it is to be asked
        base = public(base)
    return base.rstrip("/")


@lru_cache(512)
def address_in(model: str) -> str | None:
    """Return why a model's name is refused: it holds an address, which LiteLLM might send prompts to.

    >>> address_in("ollama/llama3:8b"), address_in("oobabooga/http://h:1") is None
    (None, False)
    """
    if not _ADDRESS.search(model):
        return None
    return (
        f"the model's name {without_key(model)!r} holds an address; give a server's address as `api_base`, "
        "as in `model: openai/NAME, api_base: http://127.0.0.1:8000/v1`"
    )


def destination(model: str, api_base: str | None) -> Destination:
    """Raises UnknownServerError: where the requests of a model go cannot be known."""
    if reason := address_in(model):
        raise UnknownServerError(reason)
    provider = model.partition("/")[0] if "/" in model else _provider_of(model)
    base = server_of(model, api_base) or server_of(f"{_SAME.get(provider, provider)}/", None)
    if base:
        with suppress(ValueError):
            return Destination(frozenset({origin(base)}), request_context(base))
        raise UnknownServerError(
            f"`{without_key(base)}` is not an address; it must begin with http:// or https://"
        )
    addresses = _ORIGINS.get(provider) or _regional(provider, model) or _told_by_litellm(provider)
    if not addresses:
        raise UnknownServerError(
            f"where `{model}` would send prompts cannot be known: give its server's address as `api_base`; "
            "a server that speaks OpenAI's protocol is asked as `openai/NAME`"
        )
    return Destination(frozenset(map(origin, addresses)))


def server_name(model: str, api_base: str | None) -> str:
    """Return the server of a model as `egress.allow` takes it. Raises ValueError: its address is none.

    >>> server_name("openai/x", "https://h.example/v1"), server_name("mistral/x", None)
    ('https://h.example:443', 'mistral')
    """
    provider = model.partition("/")[0]
    base = server_of(model, api_base) or server_of(f"{_SAME.get(provider, provider)}/", None)
    return origin(base) if base else provider


def permitted(model: str, api_base: str | None) -> Destination:
    """Raises UnknownServerError: the server cannot be known, or was not named."""
    found = destination(model, api_base)
    server = server_name(model, api_base)
    if not is_allowed(server):
        raise UnknownServerError(
            f"not sent: {server} is not among the servers that the study or export names; "
            "a component of another package has to take its server's address as a parameter"
        )
    return found


def _provider_of(model: str) -> str:
    with suppress(Exception), redirect_stdout(StringIO()):  # its own class, and it prints advice
        return str(litellm().get_llm_provider(model)[1])
    return ""


def _regional(provider: str, model: str) -> tuple[str, ...]:
    if provider not in _REGIONAL:
        return ()
    address, variables, default = _REGIONAL[provider]
    inside = model.split("/")[1:-1]
    told = next((os.environ[name] for name in variables if os.environ.get(name)), default)
    region = next((part for part in inside if _REGION.fullmatch(part)), told)
    return (address.format(region),) if _REGION.fullmatch(region) else ()


def _told_by_litellm(provider: str) -> tuple[str, ...]:
    if provider in _ASKS_AT_ONCE:
        return ()
    with suppress(Exception), redirect_stdout(StringIO()):  # its own class, and it prints advice
        found = litellm().get_llm_provider(f"{_SAME.get(provider, provider)}/any")
        if found[1] == _SAME.get(provider, provider) and found[3]:
            return (public(found[3]),)
    return ()


def placeholder_key(model: str, api_base: str | None) -> str | None:
    """Return a placeholder for a server that needs no key; the client refuses to call without one."""
    if api_base and model.startswith("openai/") and not os.environ.get("OPENAI_API_KEY"):
        return "none"
    return None


def missing_keys(model: str, api_base: str | None) -> list[str]:
    """Return the variables of which one must hold a key; empty: nothing is missing."""
    if model.startswith(LOCAL) or placeholder_key(model, server_of(model, api_base)):
        return []
    found: dict[str, Any] = {}
    with suppress(Exception):  # it raises for some names that it does not know
        found = litellm().validate_environment(model)
    names = [name for name in found.get("missing_keys", ()) if name.endswith("KEY")]
    alternatives = {"GOOGLE_API_KEY", "GEMINI_API_KEY"}
    if alternatives & set(names) and any(os.environ.get(name) for name in alternatives):
        return []
    return names


def unreachable(model: str, api_base: str | None) -> str | None:
    """Return why a model cannot be asked, as far as is known without a call: no such provider, no key.

    >>> unreachable("nonsense/foo", None)
    '`nonsense/foo` names no provider that LiteLLM knows; write `provider/model`, as in `openai/gpt-4o-mini`'
    >>> unreachable("openai/my-model", "http://127.0.0.1:8000/v1")
    """
    if model.startswith(LOCAL):
        return None
    if reason := address_in(model):
        return reason
    if model.startswith("openai/") and (server_of(model, api_base) or os.environ.get("OPENAI_API_KEY")):
        return None  # told without LiteLLM, whose import takes seconds that a run with nothing to do has not
    try:
        with redirect_stdout(StringIO()):  # it prints advice
            litellm().get_llm_provider(model)
    except Exception:  # its own class, which is no better than the sentence here
        return (
            f"`{model}` names no provider that LiteLLM knows; "
            "write `provider/model`, as in `openai/gpt-4o-mini`"
        )
    try:
        destination(model, api_base)
    except UnknownServerError as error:
        return str(error)
    names = missing_keys(model, api_base)
    return f"no key for `{model}`: set {' or '.join(names)} in the environment" if names else None

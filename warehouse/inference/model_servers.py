"""Which server and key LiteLLM uses for a model name."""

from __future__ import annotations

import os
import re
import warnings
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any

LOCAL = "local/"  # models of the registry, served in this process


def litellm() -> Any:
    """Return the module, imported quietly and with limits on what servers may send."""
    os.environ.setdefault(
        "LITELLM_LOCAL_MODEL_COST_MAP", "True"
    )  # else its import asks the network for prices
    import litellm as module

    from warehouse.inference.http_limits import limit_litellm

    # Odd numbers in a reply make Pydantic warn on the terminal; what is wrong is the call's reason.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    module.suppress_debug_info = True  # else each failure prints advice to stdout
    limit_litellm(module)
    return module


def without_none(**arguments: object) -> dict[str, object]:
    """Return the arguments that are not None."""
    return {name: value for name, value in arguments.items() if value is not None}


def server_of(model: str, api_base: str | None) -> str | None:
    """Return the server that will be asked, which LiteLLM may also take from the environment.

    None: the provider's own, or a model that is served in this process.
    """
    if model.startswith(LOCAL):
        return None
    provider = re.sub(r"\W", "_", model.partition("/")[0]).upper() if "/" in model else "OPENAI"
    fallback = os.environ.get(f"{provider}_BASE_URL") or os.environ.get(f"{provider}_API_BASE")
    base = api_base or fallback
    return base.rstrip("/") if base else None


def placeholder_key(model: str, api_base: str | None) -> str | None:
    """Return a placeholder for a server that needs no key; the client refuses to call without one."""
    if api_base and model.startswith("openai/") and not os.environ.get("OPENAI_API_KEY"):
        return "none"
    return None


def missing_keys(model: str, api_base: str | None) -> list[str]:
    """Return the environment variables of which one must hold a key before a model can be asked.

    Empty where nothing is missing: the key is set, or the model's server needs none.
    """
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
    names = missing_keys(model, api_base)
    return f"no key for `{model}`: set {' or '.join(names)} in the environment" if names else None

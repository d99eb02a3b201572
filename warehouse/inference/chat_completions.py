"""Chat completions of servers that speak OpenAI's protocol: a third of LiteLLM's processor time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from http.client import responses
from time import monotonic
from typing import Any

import httpx
import orjson

from rag_assay.warehouse.inference import http_limits, http_posts
from rag_assay.warehouse.inference.http_clients import lent_line

OPENAI = "https://api.openai.com/v1"

# LiteLLM renames or refuses parameters of these, or sends them elsewhere.
_PARTICULAR = re.compile(
    r"(?:o\d|chatgpt|codex|computer-use|davinci|babbage|ft:|responses/|.*gpt-?[5-9])"
    r"|gpt-.*(?:audio|search|realtime|instruct)"
)
_LITELLM_ALONE = ("SSL_VERIFY", "SSL_CERTIFICATE", "SSL_SECURITY_LEVEL", "SSL_ECDH_CURVE")


class ServerError(Exception):
    """A server's answer that is an error: its status, its own code and message, its headers."""

    def __init__(self, status_code: int, message: str, code: str | None, headers: Mapping[str, str]) -> None:
        phrase = responses.get(status_code, "")
        super().__init__(f"the server answered {status_code}{f' ({phrase})' if phrase else ''}: {message}")
        self.status_code = status_code
        self.code = code
        self.headers = headers


class NoCompletionError(Exception):
    """A server's answer that is no chat completion."""


class MissingKeyError(Exception):
    """OpenAI's own server is to be asked, and there is no key."""


def is_plain(model: str) -> bool:
    """Return whether a model can be asked here.

    >>> is_plain("openai/Qwen2.5-7B-Instruct"), is_plain("openai/gpt-4o-mini")
    (True, True)
    >>> is_plain("openai/gpt-5-mini"), is_plain("openai/o3"), is_plain("mistral/any"), is_plain("gpt-4o")
    (False, False, False, False)
    """
    is_litellms = any(name in os.environ and os.environ[name] for name in _LITELLM_ALONE)
    return _is_usual(model) and not is_litellms


@lru_cache(512)
def _is_usual(model: str) -> bool:
    provider, _, name = model.partition("/")
    return provider == "openai" and not _PARTICULAR.match(name)


def complete(
    request: Mapping[str, Any], api_base: str | None, api_key: str | None, timeout: float
) -> dict[str, Any]:
    """Send a request to `<api_base>/chat/completions`; return the completion as the server gave it.

    api_base, api_key: default: OpenAI's own, the one in the environment
    timeout: seconds that the server may stay silent
    Raises MissingKeyError, ServerError (an error was answered), NoCompletionError and httpx.HTTPError.
    """
    url, headers = url_of(api_base), headers_for(api_key)
    body = orjson.dumps(request, option=orjson.OPT_NON_STR_KEYS)
    response = send_json("POST", url, body, headers, timeout)
    return completion_in(response.content, response)


def send_json(
    method: str, url: str, body: bytes, headers: Mapping[str, str], timeout: float
) -> httpx.Response | http_posts.Response:
    """Raises ServerError (an error was answered) and httpx.HTTPError (no answer)."""
    response: httpx.Response | http_posts.Response | None = None
    if method == "POST":
        response = http_posts.post(url, body, headers, timeout, monotonic() + timeout * http_limits.TOTAL)
    if response is None:
        with lent_line() as line:
            given = httpx.Headers({"Content-Type": "application/json"} | http_limits.ENCODINGS)
            given.update(headers)
            extensions = {"trace": line.trace}
            response = line.client.request(
                method, url, content=body, headers=given, timeout=timeout, extensions=extensions
            )
    if not response.is_success:
        raise error_of(response)
    return response


def completion_in(body: bytes, response: httpx.Response | http_posts.Response) -> dict[str, Any]:
    """Raises ServerError (an error, whatever the status) and NoCompletionError."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:  # also bytes that are no UTF-8
        raise NoCompletionError(f"the server's answer is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise NoCompletionError("the server's answer is not a JSON object")
    if not found.get("choices") and found.get("error"):  # some gateways say 200 to everything
        message, code = message_and_code(found)
        raise ServerError(response.status_code, message, code, response.headers)
    return found


def url_of(api_base: str | None) -> str:
    return f"{api_base or OPENAI}/chat/completions"


def headers_for(api_key: str | None) -> dict[str, str]:
    """Raises MissingKeyError: there is no key, in the environment neither."""
    key = api_key or os.environ.get("OPENAI_API_KEY")
    if not key:
        raise MissingKeyError
    headers = {"Authorization": f"Bearer {key}"}
    for name, variable in (("OpenAI-Organization", "OPENAI_ORG_ID"), ("OpenAI-Project", "OPENAI_PROJECT_ID")):
        if os.environ.get(variable):
            headers[name] = os.environ[variable]
    return headers


def error_of(response: httpx.Response | http_posts.Response) -> ServerError:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        message, code = message_and_code(body)
    else:
        message, code = response.content.decode("utf-8", "replace").strip(), None
    return ServerError(response.status_code, message or response.reason_phrase, code, response.headers)


def message_and_code(body: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return an error's message and code; servers write it in several ways.

    >>> message_and_code({"error": {"message": "no", "code": None, "type": "server_error"}})
    ('no', 'server_error')
    """
    error = body.get("error", body)
    if not isinstance(error, dict):
        return str(error), None
    code = error.get("code") if isinstance(error.get("code"), str) else error.get("type")
    message = error.get("message") or error.get("detail") or json.dumps(error)
    return str(message), code if isinstance(code, str) else None

"""The one door to every language model: typed outcomes, a cache, retries and a budget."""

from __future__ import annotations

import json
import os
import re
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import perf_counter, sleep
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from warehouse import local_llm, models
from warehouse.cache import CallCache
from warehouse.errors import AssayError, InputError
from warehouse.identity import digest
from warehouse.paths import Home
from warehouse.schemas import RETRYABLE, Status
from warehouse.spending import Purse

LOCAL = "local/"
LONGEST_WAIT = 60.0  # seconds: a server that asks for more is left alone until the next run


@dataclass(frozen=True)
class Reply:
    """What one call gave.

    reason: why the status is not `ok`, in one line; None when it is
    text: the answer without white space around it; empty when there is none
    raw: what the model gave back, untouched; None when it gave nothing
    seconds: of the one attempt that computed it, also when it now comes from the cache
    prompt_tokens, completion_tokens: None where the server does not count them
    usd: 0 for a local model, None when the price or the tokens are not known
    call_id: names it in the cache of calls
    """

    status: Status
    reason: str | None
    text: str
    raw: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    usd: float | None
    cached: bool
    call_id: str


@dataclass(frozen=True)
class _Call:
    """All that decides what comes back; its digest is the key of the cache."""

    model: str
    weights: str | None  # digest of a local model's files, with what runs them
    api_base: str | None
    messages: list[dict[str, str]]
    temperature: float
    max_tokens: int
    seed: int | None
    response_format: dict[str, Any] | None
    replicate: int

    @property
    def is_local(self) -> bool:
        return self.weights is not None


@dataclass
class _Turn:
    """One thread at a time makes a call; `wanted` threads wait for it or make it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    wanted: int = 0


class Gateway:
    """Asks models for completions through LiteLLM; every outcome is a `Reply` with a typed status.

    timeout: seconds that a server may stay silent
    retries: further attempts after a rate limit or a server's passing failure; not after its silence, which
        has cost `timeout` seconds and may cost money
    purse: what calls to paid models are paid from, together with whoever else holds it; models without a
        known price do not count. None means no limit
    local_threads, local_context: of the local server; None threads means every free core

    Safe to use from many threads: what several ask at once is asked and paid once, and calls to one local
    model are made one after another.
    """

    def __init__(
        self,
        home: Home,
        *,
        timeout: float = 120.0,
        retries: int = 2,
        purse: Purse | None = None,
        local_threads: int | None = None,
        local_context: int = local_llm.CONTEXT,
    ) -> None:
        self.home = home
        self.timeout = timeout
        self.retries = retries
        self.local_threads = local_threads
        self.local_context = local_context
        self.cache = CallCache(home)
        self._purse = purse or Purse(None)
        self._asking: dict[str, _Turn] = {}
        self._asking_lock = threading.Lock()
        self._servers: dict[str, local_llm.LocalServer] = {}
        self._local_lock = threading.Lock()

    @property
    def spent_usd(self) -> float:
        """US dollars spent from its purse so far, cached calls not counted."""
        return self._purse.spent_usd

    def complete(  # noqa: PLR0913 - the parameters of a chat completion, all by name
        self,
        model: str,
        messages: list[dict[str, str]],
        *,
        temperature: float = 0.0,
        max_tokens: int = 256,
        seed: int | None = None,
        response_format: dict[str, Any] | None = None,
        api_base: str | None = None,
        replicate: int = 0,
    ) -> Reply:
        """Ask ``model`` and return its reply, from the cache when the same was asked before.

        model: a LiteLLM name (`openai/gpt-4o-mini`), or `local/<name in the registry>`
        api_base: any OpenAI-compatible server, with a model name that begins with `openai/`
        replicate: asks again what was asked before, when it differs

        Never raises for a call that fails. Raises `InputError` for a local model that is not registered.
        """
        base = None if model.startswith(LOCAL) else _base(model, api_base)
        call = _Call(
            model=model,
            weights=self._local_weights(model),
            api_base=base,
            messages=[{name: _encodable(text) for name, text in one.items()} for one in messages],
            temperature=float(temperature),
            max_tokens=max_tokens,
            seed=seed,
            response_format=response_format,
            replicate=replicate,
        )
        call_id = digest(asdict(call))
        found = _from_record(self.cache.get(call_id))
        if found:
            return found
        with self._turn(call_id):
            return _from_record(self.cache.get(call_id)) or self._pay(call, call_id)

    @contextmanager
    def _turn(self, call_id: str) -> Iterator[None]:
        """Wait until no other thread asks the same."""
        with self._asking_lock:
            turn = self._asking.setdefault(call_id, _Turn())
            turn.wanted += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._asking_lock:
                turn.wanted -= 1
                if not turn.wanted:
                    del self._asking[call_id]

    def _pay(self, call: _Call, call_id: str) -> Reply:
        """Make a call that is not in the cache, if the budget allows it, and keep what came of it."""
        if call.is_local:
            return self._kept(call, *self._ask(call, call_id))
        if not self._purse.open(call.model):
            return _failure(call_id, Status.OVER_BUDGET, self._purse.told)
        reply = None
        try:
            reply, response = self._ask(call, call_id)
            return self._kept(call, reply, response)
        finally:
            answered = reply is not None and reply.raw is not None
            self._purse.close(call.model, reply.usd if reply else None, answered=answered)

    def _kept(self, call: _Call, reply: Reply, response: str | None) -> Reply:
        if reply.status not in RETRYABLE:
            self.cache.put(reply.call_id, _record(call, reply, response))
        return reply

    def close(self) -> None:
        """Stop the local servers; a later local call starts them again."""
        with self._local_lock:
            while self._servers:
                self._servers.popitem()[1].stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _local_weights(self, model: str) -> str | None:
        if not model.startswith(LOCAL):
            return None
        name = model.removeprefix(LOCAL)
        if models.get(name).kind != "llm":
            fit = ", ".join(LOCAL + entry.name for entry in models.known() if entry.kind == "llm")
            raise InputError(f"{model!r} embeds text and cannot answer. Local models that can: {fit}.")
        return f"{models.digest(name)} {local_llm.engine()} context {self.local_context}"

    def _ask(self, call: _Call, call_id: str) -> tuple[Reply, str | None]:
        """Make the call; return the reply and the response as JSON (None when there is none)."""
        if not call.is_local:
            return self._attempts(call, call_id, call.model, call.api_base, None)
        with self._local_lock:  # one slot: waiting for it is not the model's time
            try:
                server = self._server(call.model.removeprefix(LOCAL))
            except AssayError as error:
                return _failure(call_id, Status.ERROR, str(error)), None
            name = f"openai/{server.model_name}"
            return self._attempts(call, call_id, name, server.api_base, server.api_key)

    def _server(self, name: str) -> local_llm.LocalServer:
        if name not in self._servers:
            folder = models.fetch(name, self.home)
            self._servers[name] = local_llm.LocalServer(
                name, folder, threads=self.local_threads, context=self.local_context
            )
        return self._servers[name]

    def _attempts(
        self, call: _Call, call_id: str, name: str, api_base: str | None, api_key: str | None
    ) -> tuple[Reply, str | None]:
        litellm = _litellm()
        arguments = {
            "model": name,
            "messages": call.messages,
            "temperature": call.temperature,
            "max_tokens": call.max_tokens,
            "timeout": self.timeout,
            "num_retries": 0,  # retried here, where Retry-After and the reply's seconds are in hand
            "max_retries": 0,
            **_given(seed=call.seed, response_format=call.response_format, api_base=api_base),
            **_given(api_key=api_key or _key(name, api_base)),
        }
        for attempt in range(self.retries + 1):
            start = perf_counter()
            try:
                response = litellm.completion(**arguments)
            except Exception as error:  # LiteLLM raises its own, openai's, httpx's and plain Python errors
                seconds = perf_counter() - start
                wait = _wait(error, attempt) if attempt < self.retries else None
                if wait is None:
                    return _failed(call_id, error, seconds), None
                sleep(wait)
            else:
                return _read(call, call_id, response, perf_counter() - start)
        raise AssertionError("the last attempt returns")


def json_format(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Return the `response_format` of a JSON object with these properties, all required and no others.

    properties: name -> JSON schema, each bounded (maxLength, maxItems): small models fill what is not
    """
    shape = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": shape}}


def local_weights(model: str) -> str | None:
    """Return the digest of a local model's files, for identities; None for a model of a server."""
    return models.digest(model.removeprefix(LOCAL)) if model.startswith(LOCAL) else None


def _litellm() -> Any:
    os.environ.setdefault(
        "LITELLM_LOCAL_MODEL_COST_MAP", "True"
    )  # else its import asks the network for prices
    import litellm

    litellm.suppress_debug_info = True  # else each failure prints advice to stdout
    return litellm


def _given(**arguments: object) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if value is not None}


def _base(model: str, api_base: str | None) -> str | None:
    """Return the server that will be asked, which LiteLLM may also take from the environment."""
    provider = re.sub(r"\W", "_", model.partition("/")[0]).upper() if "/" in model else "OPENAI"
    fallback = os.environ.get(f"{provider}_BASE_URL") or os.environ.get(f"{provider}_API_BASE")
    base = api_base or fallback
    return base.rstrip("/") if base else None


def _key(name: str, api_base: str | None) -> str | None:
    """Return a placeholder for a server that needs no key; the client refuses to call without one."""
    if api_base and name.startswith("openai/") and not os.environ.get("OPENAI_API_KEY"):
        return "none"
    return None


# Outcomes --------------------------------------------------------------------------------------------------


def _read(call: _Call, call_id: str, response: Any, seconds: float) -> tuple[Reply, str | None]:
    """Turn a response into a reply; one that is not shaped like a completion is an error."""
    try:
        choice = response.choices[0]
        raw = None if choice.message.content is None else _encodable(choice.message.content)
        finish, refusal = choice.finish_reason, _refusal(choice.message)
        dumped = json.dumps(response.model_dump(), default=str)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        return replace(
            _failure(call_id, Status.ERROR, f"The server's answer is no chat completion ({error})."),
            seconds=seconds,
        ), None
    text = (raw or "").strip()
    status, reason = _outcome(text, finish, refusal, call.max_tokens)
    usage = getattr(response, "usage", None)
    read = getattr(usage, "prompt_tokens", None) or None  # LiteLLM says 0 where the server counts none
    reply = Reply(
        status=status,
        reason=reason,
        text=text,
        raw=raw,
        prompt_tokens=read,
        completion_tokens=getattr(usage, "completion_tokens", None) if read else None,
        seconds=seconds,
        usd=0.0 if call.is_local else _price(call.model, response) if read else None,
        cached=False,
        call_id=call_id,
    )
    return reply, dumped


def _outcome(text: str, finish: str | None, refusal: str | None, limit: int) -> tuple[Status, str | None]:
    if finish == "content_filter":
        return Status.REFUSED, "The server's content filter stopped the answer."
    if refusal and not text:
        return Status.REFUSED, _one_line(f"The model refused: {refusal}")
    if finish == "length":
        return (
            Status.TRUNCATED,
            f"The answer was cut at the limit (max_tokens {limit}, or the model's context).",
        )
    if not text:
        return Status.PARSE_FAILED, "The model gave an empty text."
    return Status.OK, None


def _refusal(message: Any) -> str | None:
    fields = getattr(message, "provider_specific_fields", None) or {}
    return getattr(message, "refusal", None) or fields.get("refusal")


def _price(model: str, response: Any) -> float | None:
    with suppress(Exception):  # unknown models raise one of several errors
        return float(_litellm().completion_cost(completion_response=response, model=model))
    return None


def _failed(call_id: str, error: Exception, seconds: float) -> Reply:
    reason = f"{type(error).__name__}: {error}"
    return replace(_failure(call_id, _status(error), reason), seconds=seconds)


def _status(error: Exception) -> Status:
    litellm = _litellm()
    by_class = (
        (litellm.Timeout, Status.TIMEOUT),
        (litellm.RateLimitError, Status.RATE_LIMITED),
        (litellm.ContentPolicyViolationError, Status.REFUSED),
        # The same prompt will never fit: not an error that another run may mend.
        (litellm.ContextWindowExceededError, Status.TRUNCATED),
    )
    for kind, status in by_class:
        if isinstance(error, kind):
            return status
    # LiteLLM tells these two by their wording, which differs from server to server; the code does not.
    return _BY_CODE.get(str(getattr(error, "code", None)), Status.ERROR)


_BY_CODE = {
    "content_policy_violation": Status.REFUSED,
    "content_filter": Status.REFUSED,
    "context_length_exceeded": Status.TRUNCATED,
}


def _failure(call_id: str, status: Status, reason: str) -> Reply:
    return Reply(
        status=status,
        reason=_one_line(reason),
        text="",
        raw=None,
        prompt_tokens=None,
        completion_tokens=None,
        seconds=0.0,
        usd=None,
        cached=False,
        call_id=call_id,
    )


def _wait(error: Exception, attempt: int) -> float | None:
    """Return the seconds to wait before the next attempt, or None when there should be none."""
    litellm = _litellm()
    # LiteLLM's errors carry a made-up response; the server's own headers stand beside it.
    headers = getattr(error, "litellm_response_headers", None)
    if isinstance(error, litellm.Timeout) and headers is None:
        return None  # silence; 408 and 504 are answers
    passing = (
        litellm.RateLimitError,
        litellm.InternalServerError,
        litellm.ServiceUnavailableError,
        litellm.BadGatewayError,
        litellm.APIConnectionError,
    )
    code = getattr(error, "status_code", None)
    is_passing = isinstance(error, passing) or (headers is not None and code in _PASSING)
    if not is_passing:
        return None
    asked = _retry_after(headers or {})
    if asked is None:
        return min(2.0**attempt, LONGEST_WAIT)
    return asked if asked <= LONGEST_WAIT else None


_PASSING = {408, 425} | (set(range(500, 600)) - {501, 505})


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read `Retry-After`: seconds, or an HTTP date; None when it is missing or neither."""
    value = headers.get("retry-after")
    if not value:
        return None
    with suppress(ValueError):
        return max(0.0, float(value))
    with suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    return None


_KEY_SHAPES = re.compile(
    r"""\b(?:sk|pk|gsk|hf|xai|AIza)[-_]?[\w*-]{12,}      # the usual shapes of keys, also masked ones
      | (?<=Bearer\s)\S+
      | (?<=://)[^/@\s]+(?=@)                            # credentials in a URL
      | (?<=key=)[^&\s]+""",
    re.VERBOSE,
)
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_?\d+)?$", re.IGNORECASE)


def _encodable(text: str) -> str:
    """Return ``text`` with a question mark for each lone surrogate, which no file and no server takes."""
    return text.encode("utf-8", "replace").decode()


def _one_line(text: str) -> str:
    """Return ``text`` in one line of at most 400 characters, without anything that may be a secret."""
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= 8:
            for form in (value, quote(value, safe=""), b64encode(os.fsencode(value)).decode()):
                text = text.replace(form, "***")
    plain = " ".join(_KEY_SHAPES.sub("***", text).split())
    return plain if len(plain) <= 400 else plain[:399] + "…"


# The cache -------------------------------------------------------------------------------------------------


def _record(call: _Call, reply: Reply, response: str | None) -> dict[str, Any]:
    """Return the row of `schemas.CALLS`, with what else makes the reply again."""
    request = asdict(call)
    if call.api_base:
        request["api_base"] = _KEY_SHAPES.sub("***", call.api_base)
    return {
        "call_id": reply.call_id,
        "model": call.model,
        "status": reply.status.value,
        "reason": reply.reason,
        "request": json.dumps(request, ensure_ascii=False, sort_keys=True),
        "response": response,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "seconds": reply.seconds,
        "usd": reply.usd,
        "created_at": datetime.now(UTC).isoformat(),
        "text": reply.text,
        "raw": reply.raw,
    }


def _from_record(record: dict[str, Any] | None) -> Reply | None:
    """Make the reply of a cached call; None when the record is none, or one of another shape."""
    if record is None:
        return None
    try:
        fields = {
            name: record[name] for name in Reply.__dataclass_fields__ if name not in {"status", "cached"}
        }
        return Reply(status=Status(record["status"]), cached=True, **fields)
    except (KeyError, ValueError):
        return None

"""The one door to every language model: typed outcomes, a cache, retries and a budget."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter, sleep
from types import TracebackType
from typing import Any, Self

from warehouse.errors import AssayError, InputError
from warehouse.identity import digest
from warehouse.inference import call_failures, local_llm, models
from warehouse.inference.budget import Budget
from warehouse.inference.call_cache import CallCache
from warehouse.inference.model_servers import LOCAL, given, litellm, placeholder_key, server_of
from warehouse.inference.redaction import encodable
from warehouse.inference.replies import Call, Reply, failure, from_record, read_response, record_of
from warehouse.paths import Home
from warehouse.schemas import RETRYABLE, Status


@dataclass
class _Turn:
    """One thread at a time makes a call; `wanted` threads wait for it or make it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    wanted: int = 0


class Gateway:
    """Asks models for completions through LiteLLM; every outcome is a `Reply` with a typed status.

    A model that cannot be asked at all (no key, a refused key, nobody at its address) fails once; the calls
    after that end as `not_run` with the same reason, and no request is sent.

    timeout: seconds that a server may stay silent; five times as long for a whole reply
    retries: further attempts after a rate limit or a server's passing failure; not after its silence, which
        has cost `timeout` seconds and may cost money
    budget: what calls to paid models are paid from, together with whoever else holds it; models without a
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
        budget: Budget | None = None,
        local_threads: int | None = None,
        local_context: int = local_llm.CONTEXT,
    ) -> None:
        self.home = home
        self.timeout = timeout
        self.retries = retries
        self.local_threads = local_threads
        self.local_context = local_context
        self.cache = CallCache(home)
        self._budget = budget or Budget(None)
        self._asking: dict[str, _Turn] = {}
        self._asking_lock = threading.Lock()
        self._obstacles: dict[tuple[str, str | None], str] = {}  # (model, server) -> why it is not asked
        self._answered: set[tuple[str, str | None]] = set()
        self._servers: dict[str, local_llm.LocalServer] = {}
        self._local_lock = threading.Lock()

    @property
    def spent_usd(self) -> float:
        """US dollars spent from its budget so far, cached calls not counted."""
        return self._budget.spent_usd

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
        call = Call(
            model=model,
            weights=self._local_weights(model),
            api_base=server_of(model, api_base),
            messages=[{name: encodable(text) for name, text in one.items()} for one in messages],
            temperature=float(temperature),
            max_tokens=max_tokens,
            seed=seed,
            response_format=response_format,
            replicate=replicate,
        )
        call_id = digest(asdict(call))
        found = from_record(self.cache.get(call_id))
        if found:
            return found
        with self._turn(call_id):
            return from_record(self.cache.get(call_id)) or self._pay(call, call_id)

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

    def _pay(self, call: Call, call_id: str) -> Reply:
        """Make a call that is not in the cache, if the budget allows it, and keep what came of it."""
        obstacle = self._obstacles.get((call.model, call.api_base))
        if obstacle:
            return failure(call_id, Status.NOT_RUN, f"not asked, for another call has failed: {obstacle}")
        if call.is_local:
            return self._kept(call, *self._ask(call, call_id))
        if not self._budget.open(call.model):
            return failure(call_id, Status.OVER_BUDGET, self._budget.told)
        reply = None
        try:
            reply, response = self._ask(call, call_id)
            return self._kept(call, reply, response)
        finally:
            answered = reply is not None and reply.raw is not None
            self._budget.close(call.model, reply.usd if reply else None, answered=answered)

    def _kept(self, call: Call, reply: Reply, response: str | None) -> Reply:
        if reply.status not in RETRYABLE:
            self.cache.put(reply.call_id, record_of(call, reply, response))
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

    def _ask(self, call: Call, call_id: str) -> tuple[Reply, str | None]:
        """Make the call; return the reply and the response as JSON (None when there is none)."""
        if not call.is_local:
            return self._attempts(call, call_id, call.model, call.api_base, None)
        with self._local_lock:  # one slot: waiting for it is not the model's time
            try:
                server = self._server(call.model.removeprefix(LOCAL))
            except AssayError as error:
                self._obstacles[(call.model, call.api_base)] = str(error)
                return failure(call_id, Status.ERROR, str(error)), None
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
        self, call: Call, call_id: str, name: str, api_base: str | None, api_key: str | None
    ) -> tuple[Reply, str | None]:
        arguments = {
            "model": name,
            "messages": call.messages,
            "temperature": call.temperature,
            "max_tokens": call.max_tokens,
            "timeout": self.timeout,
            "num_retries": 0,  # retried here, where Retry-After and the reply's seconds are in hand
            "max_retries": 0,
            **given(seed=call.seed, response_format=call.response_format, api_base=api_base),
            **given(api_key=api_key or placeholder_key(name, api_base)),
        }
        for attempt in range(self.retries + 1):
            start = perf_counter()
            try:
                response = litellm().completion(**arguments)
            except Exception as error:  # LiteLLM raises its own, openai's, httpx's and plain Python errors
                seconds = perf_counter() - start
                wait = call_failures.retry_wait(error, attempt) if attempt < self.retries else None
                if wait is None:
                    return replace(self._failed(call, call_id, error), seconds=seconds), None
                sleep(wait)
            else:
                self._answered.add((call.model, call.api_base))
                return read_response(call, call_id, response, perf_counter() - start)
        raise AssertionError("the last attempt returns")

    def _failed(self, call: Call, call_id: str, error: Exception) -> Reply:
        """Return the reply of a call that failed for good, and remember what would fail the next ones too."""
        whose = (call.model, call.api_base)
        obstacle = call_failures.obstacle(error, call.model, call.api_base, answered=whose in self._answered)
        if obstacle and not call.is_local:
            self._obstacles[whose] = obstacle
        reason = obstacle or call_failures.reason_of(error)
        return failure(call_id, call_failures.status_of(error), reason)


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


def served_by(model: str, api_base: str | None) -> str | None:
    """Return the digest of what decides who answers beside the recipe itself, for identities.

    The files of a local model, or the server that only an environment variable names; None where the recipe
    says it all.
    """
    if model.startswith(LOCAL):
        return models.digest(model.removeprefix(LOCAL))
    server = server_of(model, api_base)
    return digest(["server", server]) if server and not api_base else None

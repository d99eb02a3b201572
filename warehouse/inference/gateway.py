"""The gateway through which every language model is called: typed replies, cache, retries, budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from math import inf
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.cancellation import CancelledError
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.cooperative_scheduler import release_turn
from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.inference import call_failures, local_llm, models
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.chat_model import CallLimits, ChatModel
from rag_assay.warehouse.inference.local_llm import LocalServers
from rag_assay.warehouse.inference.model_servers import LOCAL, server_of
from rag_assay.warehouse.inference.ordered_map import side_by_side
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.replies import (
    Call,
    Completion,
    Reply,
    failed_reply,
    failure,
    from_record,
    record_of,
    reply_of,
)
from rag_assay.warehouse.inference.single_call import CallPolicy, CallTarget, send_call
from rag_assay.warehouse.inference.streaming import draft_of
from rag_assay.warehouse.inference.structured import (
    Bounds,
    Shape,
    Structured,
    ask_structured,
    response_format_of,
)
from rag_assay.warehouse.inference.throttle import LeftAloneError, Pace
from rag_assay.warehouse.inference.token_counts import estimated_tokens, local_tokens
from rag_assay.warehouse.status import RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.call_tags import Purpose
    from rag_assay.warehouse.inference.prices import Price
    from rag_assay.warehouse.paths import Home

PASSED_ON = RETRYABLE - {Status.OVER_BUDGET}
"""How a call ends that may go well with another model: unreachable, refused key, rate limit, error, timeout.

Not what the model said of the question (a refusal, an answer that was cut or cannot be read), and not a spent
budget, which is one for all of them.
"""


def first_answer(ask: Callable[[ChatModel], Reply], chat: ChatModel) -> Reply:
    """Ask the models of a recipe in their order until one answers; else the last reply has all reasons."""
    first, *others = chat.ranked()
    reply = ask(first)
    reasons = []
    for other in others:
        if reply.status not in PASSED_ON:
            return reply
        reasons.append(f"{reply.model}: {reply.status}: {reply.reason}")
        reply = ask(other)
    if reply.status is Status.OK or not reasons:
        return reply
    before = one_line("; ".join(reasons))
    return replace(reply, reason=f"{reply.model}: {reply.reason} (asked before: {before})")


FIRST_ALONE = 5.0  # seconds that others wait for a model's first call: a refused key is told sooner


class ModelEndpoint(NamedTuple):
    """A model on a server; None: its provider's own."""

    model: str
    server: str | None


class Obstacles:
    """Thread-safe. After ``lasting`` seconds an obstacle is tried again; in a run, never."""

    def __init__(self, lasting: float = inf) -> None:
        self._lasting = lasting
        self._met: dict[ModelEndpoint, tuple[str, float]] = {}
        self._answered: set[ModelEndpoint] = set()
        self._first: dict[ModelEndpoint, threading.Lock] = {}
        self._lock = threading.Lock()

    def before(self, asked: ModelEndpoint) -> str | None:
        reason, since = self._met.get(asked, (None, 0.0))
        if reason is not None and monotonic() - since >= self._lasting:
            self._met.pop(asked, None)
            return None
        return reason

    def meet(self, asked: ModelEndpoint, reason: str) -> None:
        self._met[asked] = reason, monotonic()

    def forget(self) -> None:
        self._met.clear()

    def has_answered(self, asked: ModelEndpoint) -> bool:
        return asked in self._answered

    def pass_by(self, asked: ModelEndpoint) -> None:
        self._answered.add(asked)

    def first_alone(self, asked: ModelEndpoint) -> AbstractContextManager[None]:
        """Make calls one by one until a model has answered or failed: a wrong key is met once."""
        return nullcontext() if self._is_known(asked) else self._one_by_one(asked)

    @contextmanager
    def _one_by_one(self, asked: ModelEndpoint) -> Iterator[None]:
        with self._lock:
            first = self._first.setdefault(asked, threading.Lock())
        is_mine = first.acquire(timeout=FIRST_ALONE)
        try:
            if is_mine and self._is_known(asked):
                first.release()
                is_mine = False
            yield
        finally:
            if is_mine:
                first.release()

    def _is_known(self, asked: ModelEndpoint) -> bool:
        return asked in self._answered or asked in self._met


Messages = list[dict[str, str]]
"""A chat as servers take it: `[{"role": "system", "content": …}, {"role": "user", "content": …}]`."""

PACE = Pace()
SPARE = 32  # threads of a map beside those whose calls are in flight

Item = TypeVar("Item")
Result = TypeVar("Result")


class Gateway(Closeable):
    """Asks models for completions; every outcome is a `Reply` with a typed status. Thread-safe.

    After a model could not be asked at all (no key, no server), its calls end as `not_run` with the same
    reason. What several ask at once is asked and paid once.

    timeout: seconds that a server may stay silent; five times as long for a whole reply
    retries: further attempts after a passing failure, not after silence; 0: rate limits are not waited out
    budget: what calls to other servers are paid from; None means no limit
    local_threads, local_context: of the local servers; None threads: several small servers share the cores
    obstacles_last: seconds after which a model that could not be asked at all is tried again
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
        obstacles_last: float = inf,
    ) -> None:
        self.home = home
        self.timeout = timeout
        self.retries = retries
        self.local_context = local_context
        self.cache = CallCache(home)
        self._budget = budget or Budget(None)
        self._obstacles = Obstacles(obstacles_last)
        self._local = LocalServers(lambda name: models.fetch(name, home), local_threads, local_context)

    @property
    def spent_usd(self) -> float:
        return self._budget.spent_usd

    def complete(  # noqa: PLR0913 - the parameters of a chat completion, all by name
        self,
        model: str,
        messages: Messages,
        *,
        temperature: float = 0.0,
        max_tokens: int = 256,
        seed: int | None = None,
        response_format: dict[str, Any] | None = None,
        api_base: str | None = None,
        replicate: int = 0,
        top_logprobs: int | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        price: Price | None = None,
        pace: Pace = PACE,
        purpose: Purpose | None = None,
        drafted: bool = False,
    ) -> Reply:
        """Call ``model`` and return its reply, cached when the same was asked before.

        A call that fails returns a reply with a status. Raises InputError: a local model is not registered.

        model: a LiteLLM name (`openai/gpt-4o-mini`), or `local/<name in the registry>`
        api_base: any OpenAI-compatible server, for names that begin with `openai/`
        replicate: another number asks again
        top_logprobs: how many of the likeliest first tokens to request; default: none
        timeout, retries: default: the gateway's own
        drafted: a listener may see the text while it comes (`on_token`)
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
            top_logprobs=top_logprobs,
        )
        terms = CallPolicy(
            self.timeout if timeout is None else timeout,
            self.retries if retries is None else retries,
            price,
            pace,
            purpose,
            perf_counter(),
            draft_of(model) if drafted else None,
        )
        reply = self._answered(call, terms)
        if terms.drafting:
            terms.drafting.settle(reply.text)
        return reply

    def _answered(self, call: Call, terms: CallPolicy) -> Reply:
        found = from_record(self.cache.look_up(call.id))
        if found:
            return found
        try:
            with release_turn(lambda: 1), self.cache.turn(call.id):
                return from_record(self.cache.get(call.id)) or self._pay(call, terms)
        except CancelledError:
            reply = failure(call, Status.NOT_RUN, "not asked: the run was stopped")
            return failed_reply(reply, terms.drafting)

    def exchange(
        self,
        call: Call,
        send: Callable[[], Completion],
        limits: CallLimits | None,
        pace: Pace,
        *,
        price: Price | None = None,
        purpose: Purpose | None = None,
    ) -> Reply:
        """Make a call that is no chat completion, with the cache, budget, pace and typed outcomes of one.

        send: makes it once; raises the errors of `http_posts` and `chat_completions`
        price: of a token; None: the cost is not known
        """
        limits = limits or CallLimits()
        terms = CallPolicy(
            self.timeout if limits.timeout is None else limits.timeout,
            self.retries if limits.retries is None else limits.retries,
            price,
            pace,
            purpose,
            perf_counter(),
            send=lambda: replace(send(), priced=None),
        )
        return self._answered(call, terms)

    def ask(  # noqa: PLR0913 - as `complete`
        self,
        chat: ChatModel,
        messages: Messages,
        *,
        max_tokens: int = 256,
        seed: int | None = None,
        response_format: dict[str, Any] | None = None,
        replicate: int = 0,
        top_logprobs: int | None = None,
        purpose: Purpose | None = None,
        drafted: bool = False,
    ) -> Reply:
        """Call a recipe's model with its parameters and limits (see `complete`), then its further models.
        ``max_tokens``, ``seed``: defaults of the task; ``replicate``: asks again, with a seed so much
        higher.
        """

        def ask(one: ChatModel) -> Reply:
            limits = one.limits
            first = seed if one.seed is None else one.seed
            return self.complete(
                one.model,
                messages,
                temperature=one.temperature or 0.0,
                max_tokens=one.max_tokens or max_tokens,
                seed=None if first is None else first + replicate,
                response_format=response_format,
                api_base=one.api_base,
                replicate=replicate,
                top_logprobs=top_logprobs,
                timeout=limits.timeout if limits else None,
                retries=limits.retries if limits else None,
                price=one.token_price() if one.price else None,
                pace=one.pace,
                purpose=purpose,
                drafted=drafted,
            )

        return first_answer(ask, chat)

    def structured(  # noqa: PLR0913 - the call, and how its reply is read
        self,
        chat: ChatModel,
        messages: Messages,
        shape: type[Shape],
        *,
        name: str,
        max_tokens: int = 256,
        seed: int | None = None,
        replicate: int = 0,
        bounds: Bounds | None = None,
        check: Callable[[Shape], None] | None = None,
        purpose: Purpose | None = None,
    ) -> Structured[Shape]:
        """Ask for JSON of a shape, once more if unreadable; ``check`` raises ValueError."""
        ask = partial(
            self.ask,
            chat,
            max_tokens=max_tokens,
            seed=seed,
            response_format=response_format_of(shape, name, bounds),
            replicate=replicate,
            purpose=purpose,
        )
        return ask_structured(ask, messages, shape, check)

    def count_tokens(self, chat: ChatModel, messages: Messages) -> int:
        """Return the number of tokens of a prompt for a recipe's model; for an API, at least what it has."""
        texts = [one["content"] for one in messages]
        if not chat.is_local:
            return estimated_tokens(chat.model, texts)
        with self._local.server(chat.model.removeprefix(LOCAL)) as server:
            return local_tokens(server.api_base, server.api_key, texts)

    def map(self, ask: Callable[[Item], Result], items: Iterable[Item], chat: ChatModel) -> Iterator[Result]:
        """Yield ``ask(item)`` of each item in order, as many at once as the recipe allows."""
        asked = ModelEndpoint(chat.model, server_of(chat.model, chat.api_base))
        # More threads than calls in flight, which the throttle counts: while some keep what came, or make
        # ready what is next, the others' calls are in flight.
        threads = 1 if chat.at_once == 1 else chat.at_once + min(chat.at_once, SPARE)
        return side_by_side(ask, items, threads, first_alone=not self._obstacles.has_answered(asked))

    def _pay(self, call: Call, terms: CallPolicy) -> Reply:
        asked = ModelEndpoint(call.model, call.api_base)
        if call.is_local and not self._obstacles.before(asked):
            return self._kept(call, terms, *self._ask(call, terms))
        with self._obstacles.first_alone(asked):
            obstacle = self._obstacles.before(asked)
            if obstacle:
                reason = f"not asked, for another call has failed: {obstacle}"
                return failure(call, Status.NOT_RUN, reason)
            try:
                if not self._budget.open(call.model):
                    return failure(call, Status.OVER_BUDGET, self._budget.refusal)
            except TimeoutError as error:
                return failure(call, Status.TIMEOUT, f"not asked: {error}")
            reply = None
            try:
                reply, response = self._ask(call, terms)
                return self._kept(call, terms, reply, response)
            finally:
                answered = reply is not None and reply.raw is not None and reply.status not in RETRYABLE
                spent = (reply.usd, reply.tokens) if reply else (None, None)
                self._budget.close(call.model, *spent, answered=answered)

    def _kept(self, call: Call, terms: CallPolicy, reply: Reply, response: str | None) -> Reply:
        if reply.status not in RETRYABLE:
            self.cache.put(call.id, record_of(call, reply, response, terms.purpose))
        return reply

    def forget_obstacles(self) -> None:
        self._obstacles.forget()

    def close(self) -> None:
        self._local.close()

    def _local_weights(self, model: str) -> str | None:
        if not model.startswith(LOCAL):
            return None
        name = model.removeprefix(LOCAL)
        if models.get(name).kind != "llm":
            fit = ", ".join(LOCAL + entry.name for entry in models.known() if entry.kind == "llm")
            raise InputError(f"{model!r} embeds text and cannot answer. Local models that can: {fit}.")
        return f"{models.digest(name)} {local_llm.engine()} context {self.local_context}"

    def _ask(self, call: Call, terms: CallPolicy) -> tuple[Reply, str | None]:
        if not call.is_local:
            return self._attempts(call, terms, CallTarget(call.model, call.api_base, None))
        try:
            with self._local.server(call.model.removeprefix(LOCAL)) as server:
                place = CallTarget(f"openai/{server.model_name}", server.api_base, server.api_key)
                # Waiting for a free server is not the model's time.
                return self._attempts(call, terms, place)
        except AssayError as error:
            self._obstacles.meet(ModelEndpoint(call.model, call.api_base), str(error))
            return failure(call, Status.ERROR, str(error)), None

    def _attempts(self, call: Call, terms: CallPolicy, place: CallTarget) -> tuple[Reply, str | None]:
        try:
            ended = send_call(call, place, terms)
        except LeftAloneError as error:
            return failure(call, Status.RATE_LIMITED, f"not asked: {error}"), None
        completion, raised, seconds, queued, retries = ended
        if completion is None:
            by_name = terms.send is None
            failed = self._failed(call, raised or RuntimeError("no response"), by_name=by_name)
            reply = failed_reply(failed, terms.drafting)
            return replace(reply, seconds=seconds, queued=queued, retries=retries), None
        self._obstacles.pass_by(ModelEndpoint(call.model, call.api_base))
        reply = reply_of(call, completion, terms.price, seconds=seconds, queued=queued, retries=retries)
        return reply, completion.response

    def _failed(self, call: Call, error: Exception, *, by_name: bool) -> Reply:
        asked = ModelEndpoint(call.model, call.api_base)
        answered = self._obstacles.has_answered(asked)
        model = call.model if by_name else None
        obstacle = call_failures.obstacle(error, model, call.api_base, answered=answered)
        if obstacle and not call.is_local:
            self._obstacles.meet(asked, obstacle)
        reason = obstacle or call_failures.reason_of(error)
        return failure(call, call_failures.status_of(error), reason)

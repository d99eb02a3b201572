"""The contract of a system: a RAG application of the user's own, called or recorded."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from pydantic import Field, JsonValue, PrivateAttr

from rag_assay.evals.generation.contract import Answer, GenerationContext, Generator, Passage, Reads, Request
from rag_assay.evals.generation.refusals import is_refusal
from rag_assay.evals.systems.given_passages import GivenPassage, UnreadableError
from rag_assay.warehouse.components import OneOf
from rag_assay.warehouse.inference.chat_model import MILLION, CallLimits, TokenPrice
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.ordered_map import side_by_side
from rag_assay.warehouse.inference.prices import Price
from rag_assay.warehouse.inference.replies import Call, Completion, Reply
from rag_assay.warehouse.inference.throttle import Pace
from rag_assay.warehouse.recipe import error_at
from rag_assay.warehouse.registry import Registry
from rag_assay.warehouse.status import RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe

ONLY_PASSAGES = "the system gives passages and no answers"
"""Why a system that only retrieves has no answers: no further run changes it."""
NOT_RECORDED = "the file of recorded answers has no answer to it"
AT_ONCE = 4  # calls in flight to a server of the user's own
_WITHOUT_EFFECT = {"limits", "price"}


class SystemReply(NamedTuple):
    """What a system says; passages: best first; None: it does not tell what it read"""

    text: str | None
    passages: tuple[GivenPassage, ...] | None


class System(Generator):
    """A RAG application of the user's own. It gives an answer to each question, passages, or both.

    version: part of every identity: a new one calls the system again for each question
    """

    reads: ClassVar[Reads] = "system"
    needs_passages: ClassVar[bool] = False
    writes_markers: ClassVar[bool] = False  # what a number in brackets means to others is not known

    passages: None = None  # type: ignore[assignment] # it reads what it finds itself
    context_tokens: None = None
    gate: None = None
    version: Annotated[str, Field(max_length=200)] | None = None

    def meaning(self) -> dict[str, JsonValue]:
        said = super().meaning().items()
        return {name: one for name, one in said if name not in _WITHOUT_EFFECT and one is not None}

    @property
    @abstractmethod
    def target(self) -> str:
        """What is called, in one word without secrets: a model, a URL, a function."""

    @property
    def address(self) -> str | None:
        """The address of its server; None: it runs in this process."""
        return None

    @property
    def has_answers(self) -> bool:
        """Whether it answers; else it only retrieves."""
        return True

    def in_folder(self, folder: Path) -> None:
        self._folder = folder

    def missing(self) -> str | None:
        """Return why the system cannot be used on this machine, if that is known without a call."""
        return None

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        return []

    def calls_per_question(self) -> CallsEach:
        return CallsEach(1, 1)

    def read_answer(self, answer: Answer, found: SystemReply) -> Answer:
        passages = None if found.passages is None else tuple(map(_passage, found.passages))
        answer = replace(answer, passages=passages)
        if found.text and found.text.strip():
            answer = replace(answer, text=found.text.strip(), raw=found.text)
            if not is_refusal(found.text):
                return answer
            return replace(
                answer, status=Status.REFUSED, reason="the system says that the documents hold no answer"
            )
        if not self.has_answers and passages is not None:
            return replace(answer, status=Status.NOT_RUN, reason=ONLY_PASSAGES)
        what = "passages and no answer" if passages else "neither an answer nor passages"
        return replace(answer, status=Status.PARSE_FAILED, reason=f"the system gave {what}")

    _folder: Path = PrivateAttr(default=Path())


class CalledSystem(System):
    """A system that is called once for each question, through the cache of calls, the study's budget, its
    limits and the list of allowed servers.

    limits: timeout, retries, calls in flight and in a minute
    price: US dollars for a million tokens, where it counts them
    """

    at_once: ClassVar[int] = AT_ONCE

    limits: CallLimits | None = None
    price: TokenPrice | None = None

    @property
    def asked_as(self) -> str:
        return f"{self.kind}/{self.target}"

    @property
    def token_price(self) -> Price | None:
        return Price(self.price.read / MILLION, self.price.written / MILLION) if self.price else None

    @abstractmethod
    def request(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return all that decides what comes back but for the version, as JSON; `values`: of placeholders."""

    def prepare(self, context: GenerationContext) -> None:
        """Prepare before the first uncached question; this is not part of a call's time and timeout."""

    @abstractmethod
    def send(self, request: dict[str, JsonValue], timeout: float, context: GenerationContext) -> Completion:
        """Call it once; its content is what it gave, as JSON.

        Raises:
            NoCompletionError: what came cannot be used.
            ServerError, httpx.HTTPError: it failed.
        """

    @abstractmethod
    def read(self, given: object) -> SystemReply:
        """Read what it gave.

        Raises:
            UnreadableError: it is not what the recipe says.
        """

    @property
    def pace(self) -> Pace:
        limits = self.limits or CallLimits()
        most = limits.at_once or self.at_once
        return Pace(most, limits.requests_per_minute, limits.tokens_per_minute)

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        found = []
        answers = side_by_side(lambda one: self._ask(one, context), requests, self.pace.at_once)
        for number, one in enumerate(answers, 1):
            found.append(one)
            context.progress(f"calling {self.target}", number, len(requests))
        return found

    def call_of(self, asked: Request, replicate: int) -> Call:
        """Return the call of a question; replicate: from 0."""
        return Call(
            model=self.asked_as,
            weights=None,
            api_base=self.address,
            messages=_messages(asked),
            temperature=0.0,
            max_tokens=0,
            seed=None,
            response_format={"system": self.request(_values(asked)), "version": self.version},
            replicate=replicate,
        )

    def _ask(self, asked: Request, context: GenerationContext) -> Answer:
        request = self.request(_values(asked))
        call = self.call_of(asked, context.replicate)
        if context.gateway.cache.look_up(call.id) is None:
            self.prepare(context)
        timeout = (self.limits and self.limits.timeout) or context.gateway.timeout
        reply = context.gateway.exchange(
            call,
            lambda: self.send(request, timeout, context),
            self.limits,
            self.pace,
            price=self.token_price,
            purpose=context.purpose.of(asked.question_id),
        )
        return self._answer(reply)

    def _answer(self, reply: Reply) -> Answer:
        counted = ("prompt_tokens", "completion_tokens", "usd", "cached")
        spent = {name: getattr(reply, name) for name in counted}
        seconds = reply.seconds if reply.status not in RETRYABLE else None
        answer = Answer(reply.status, reply.reason, seconds=seconds, **spent)
        if reply.status is not Status.OK:
            return answer
        try:
            found = self.read(json.loads(reply.raw or "null"))
        except UnreadableError as error:
            return replace(answer, status=Status.PARSE_FAILED, reason=str(error))
        return self.read_answer(answer, found)


def _passage(given: GivenPassage) -> Passage:
    return Passage(
        given.text, document=given.document or "", title=given.title, url=given.url, score=given.score or 0.0
    )


def _messages(asked: Request) -> list[dict[str, str]]:
    turns = [*asked.conversation, asked.question]
    return [
        {"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(turns)
    ]


def _values(asked: Request) -> dict[str, JsonValue]:
    messages: list[JsonValue] = [dict[str, JsonValue](one) for one in _messages(asked)]
    named = {name: getattr(asked, name) for name in ("question", "language", "question_id", "asked_at")}
    return {**named, "messages": messages, "history": messages[:-1]}


SYSTEMS: Registry[System] = Registry("systems", System)
SHORT = {"python": "call", "http": "url", "recorded": "file"}
"""Kind -> the parameter that its short form sets (`http: URL`)."""


def _written_beside(written: object) -> object:
    """Move keys next to a kind into it, and expand `python: "module:function"` and its like."""
    if not isinstance(written, dict):
        return written
    kinds = [name for name in written if name in SYSTEMS]
    if len(kinds) != 1:
        return written
    (kind,) = kinds
    inside, beside = written[kind], {name: one for name, one in written.items() if name != kind}
    if isinstance(inside, str) and kind in SHORT:
        inside = {SHORT[kind]: inside}
    if not isinstance(inside, dict):
        return written
    for name in sorted(inside.keys() & beside.keys()):
        raise error_at((name,), f"`{name}` is written twice: in `{kind}` and next to it")
    return {kind: {**inside, **beside}}


AnySystem = Annotated[System, OneOf(SYSTEMS, shorthand=_written_beside)]
"""A system in a study file: `{kind: {parameters}}`; parameters may also be next to the kind."""

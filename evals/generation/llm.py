"""Answers by a language model behind the gateway."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

from pydantic import Field

from rag_assay.evals.generation.answer_prompt import PromptOptions, Prompts
from rag_assay.evals.generation.contract import Answer, GenerationContext, Generator, Request
from rag_assay.evals.generation.prompt_fitting import HISTORY_TOKENS, ContextWindow, fit_prompt, with_recent
from rag_assay.evals.generation.refusals import is_refusal
from rag_assay.evals.generation.sufficiency import (
    VERDICT_TOKENS,
    Looked,
    Sufficiency,
    SufficiencyReply,
    looked_again,
)
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.structured import MOST_ASKED, Structured
from rag_assay.warehouse.status import RETRYABLE, Status

if TYPE_CHECKING:
    from rag_assay.assets.embedding.embedder import EmbedderRecipe
    from rag_assay.warehouse.inference.replies import Reply

Item = TypeVar("Item")
Result = TypeVar("Result")


class Llm(ChatModel, Generator):
    """Calls a language model through LiteLLM.

    prompt: language, domain, or a template of your own
    window: tokens that the model reads, prompt and answer together; default: 4,096 for a local model, else
        LiteLLM's value
    history_tokens: of the conversation before the question, newest turns first; default: 512
    sufficiency: the model checks the passages first, and more are searched if they do not suffice; default:
        no check
    """

    kind: ClassVar[str] = "llm"
    unless_said: ClassVar[frozenset[str]] = frozenset({"prompt", "window", "history_tokens", "sufficiency"})

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=8, le=32768)] = 160
    prompt: PromptOptions | None = None
    window: Annotated[int, Field(ge=64, le=100_000_000)] | None = None
    history_tokens: Annotated[int, Field(ge=0, le=100_000)] | None = None
    sufficiency: Sufficiency | None = None

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        limit = HISTORY_TOKENS if self.history_tokens is None else self.history_tokens
        trimmed = [with_recent(request, limit, context.count_tokens) for request in requests]
        looked = self._looked([request for request, _ in trimmed], context)
        ready = [one.request for one in looked if one.failed is None]
        answers = iter(self.answers(ready, context))
        return [
            replace(
                one.unanswered(one.failed) if one.failed else one.completed(next(answers)),
                turns_left_out=left_out,
            )
            for one, (_, left_out) in zip(looked, trimmed, strict=True)
        ]

    def answers(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        is_one = len(requests) == 1  # drafts are of one answer

        def ask(one: Request) -> Answer:
            return self.ask(self.prompts, one, context, drafted=is_one)

        return self.in_turn(ask, requests, "asking", context)

    def in_turn(
        self, ask: Callable[[Item], Result], items: Sequence[Item], label: str, context: GenerationContext
    ) -> list[Result]:
        found = []
        for number, one in enumerate(context.gateway.map(ask, items, self), 1):
            found.append(one)
            context.progress(f"{label} {self.model}", number, len(items))
        return found

    def _looked(self, requests: list[Request], context: GenerationContext) -> list[Looked]:
        if self.sufficiency is None:
            return [Looked(request) for request in requests]
        most = self.sufficiency.passages or 2 * self.passages

        def checks(some: Sequence[Request]) -> list[Structured[SufficiencyReply]]:
            return self.in_turn(lambda one: self._check(one, context), some, "checking passages by", context)

        tokens = self.context_tokens and 2 * self.context_tokens
        return looked_again(requests, self.sufficiency, checks, context.retrieve, most, tokens)

    def _check(self, request: Request, context: GenerationContext) -> Structured[SufficiencyReply]:
        chat = self.model_copy(update={"max_tokens": max(self.max_tokens, VERDICT_TOKENS)})
        write = self.task("sufficiency").messages
        window = ContextWindow(chat, context.gateway, chat.max_tokens, self.window)
        found = None
        with suppress(AssayError):  # weights that are not there fail the call itself
            found = fit_prompt(request, write, window.fits)
        return context.gateway.structured(
            chat,
            found.messages if found else write(request),
            SufficiencyReply,
            name="sufficiency",
            seed=context.seed,
            replicate=context.replicate,
            purpose=context.purpose.of(request.question_id),
        )

    def ask(
        self,
        prompts: Prompts,
        request: Request,
        context: GenerationContext,
        *,
        drafted: bool = False,
        **more: object,
    ) -> Answer:
        """Ask the model by some prompt, cut to its window; drafted: the answer itself, streamed as it is
        written
        """
        window = ContextWindow(self, context.gateway, self.max_tokens, self.window)
        try:
            found = fit_prompt(request, lambda one: prompts.messages(one, **more), window.fits)
        except AssayError as error:  # a template of the study fails on what this request has, or no weights
            return Answer(Status.ERROR, str(error))
        if found is None:
            return Answer(Status.TRUNCATED, f"the prompt alone does not fit into {window.words}")
        if request.passages and len(found.left_out) == len(request.passages):
            return Answer(Status.NO_CONTEXT, f"no passage fits into {window.words}", cuts=found.cuts)
        reply = context.gateway.ask(
            self,
            found.messages,
            seed=context.seed,
            replicate=context.replicate,
            purpose=context.purpose.of(request.question_id),
            drafted=drafted,
        )
        return replace(_answer(reply), cuts=found.cuts)

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        tasks = [self.task(name).identity() for name in self.tasks]
        served = self.served_by()
        return [self.prompts.identity(), *tasks, seed, *([served] if served else [])]

    @property
    def prompts(self) -> Prompts:
        return Prompts("answer", self.prompt or PromptOptions())

    @property
    def tasks(self) -> list[str]:
        return ["sufficiency"] if self.sufficiency else []

    def task(self, name: str) -> Prompts:
        wanted = self.prompt or PromptOptions()
        return Prompts(name, PromptOptions(language=wanted.language, domain=wanted.domain))

    def calls_per_question(self) -> CallsEach:
        return CallsEach(2, 1 + 2 * MOST_ASKED) if self.sufficiency else CallsEach(1, 1)

    @property
    def retrieves(self) -> bool:
        return self.sufficiency is not None

    @property
    def chat(self) -> ChatModel:
        return self


def _answer(reply: Reply) -> Answer:
    refused = reply.status is Status.OK and is_refusal(reply.text)
    return Answer(
        status=Status.REFUSED if refused else reply.status,
        reason="the model says that the documents do not say" if refused else reply.reason,
        text=reply.text or None,
        raw=reply.raw,
        seconds=reply.seconds if reply.status not in RETRYABLE else None,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        usd=reply.usd,
        cached=reply.cached,
        model=None if reply.raw is None else reply.model,
    )

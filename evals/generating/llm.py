"""Answers by a language model behind the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from assets.embedding.embedder import EmbedderRecipe
from evals.generating.answer_prompt import PromptOptions, Prompts
from evals.generating.contract import Answer, GenerationContext, Generator, Request
from evals.generating.fitting import Window, fitted
from evals.generating.refusals import is_refusal
from warehouse.errors import AssayError
from warehouse.inference.chat_model import ChatModel
from warehouse.inference.replies import Reply
from warehouse.schemas import RETRYABLE, Status


class Llm(ChatModel, Generator):
    """Asks a language model through LiteLLM.

    prompt: how it is asked: language, domain, a template of one's own
    window: tokens that the model reads, prompt and answer together; unless said, what is known of it
    """

    kind: ClassVar[str] = "llm"
    unless_said: ClassVar[frozenset[str]] = frozenset({"prompt", "window"})

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=8, le=32768)] = 160
    prompt: PromptOptions | None = None
    window: Annotated[int, Field(ge=64, le=100_000_000)] | None = None

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Ask the model each question, as many at once as its limits allow."""

        def ask(request: Request) -> Answer:
            return self.ask(self.prompts, request, context)

        answers = []
        for number, one in enumerate(context.gateway.map(ask, requests, self), 1):
            answers.append(one)
            context.progress(f"asking {self.model}", number, len(requests))
        return answers

    def ask(self, prompts: Prompts, request: Request, context: GenerationContext, **more: object) -> Answer:
        """Ask the model for an answer to a request by some prompt, with values that only it has.

        What does not fit into the model's window is cut; where nothing does, nothing is sent.
        """
        window = Window(self, context.gateway, self.max_tokens, self.window)
        try:
            found = fitted(request, lambda one: prompts.messages(one, **more), window.fits)
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
        )
        return replace(_answer(reply), cuts=found.cuts)

    def dependencies(self, seed: int, embedder: EmbedderRecipe) -> list[str | int]:
        """Return the prompt's digest, the seed, which goes to the model, and who answers."""
        served = self.served_by()
        return [self.prompts.identity(), seed, *([served] if served else [])]

    @property
    def prompts(self) -> Prompts:
        """The files that it asks by."""
        return Prompts("answer", self.prompt or PromptOptions())

    @property
    def chat(self) -> ChatModel:
        """The recipe itself."""
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

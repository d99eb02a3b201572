"""Answers by a language model behind the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from assets.embedding.embedder import EmbedderRecipe
from evals.generating.answer_prompt import PromptOptions, Prompts
from evals.generating.contract import Answer, GenerationContext, Generator, Request
from evals.generating.refusals import is_refusal
from warehouse.errors import InputError
from warehouse.inference.chat_model import ChatModel
from warehouse.inference.replies import Reply
from warehouse.schemas import RETRYABLE, Status


class Llm(ChatModel, Generator):
    """Asks a language model through LiteLLM.

    prompt: how it is asked: language, domain, a template of one's own
    """

    kind: ClassVar[str] = "llm"
    unless_said: ClassVar[frozenset[str]] = frozenset({"prompt"})

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=8, le=32768)] = 160
    prompt: PromptOptions | None = None

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        """Ask the model each question, as many at once as its limits allow."""

        def ask(request: Request) -> Answer:
            try:
                messages = self.prompts.messages(request)
            except InputError as error:  # a template of the study fails on what this request has
                return Answer(Status.ERROR, str(error))
            reply = context.gateway.ask(
                self,
                messages,
                seed=context.seed,
                replicate=context.replicate,
                purpose=context.purpose.of(request.question_id),
            )
            return _answer(reply)

        answers = []
        for number, one in enumerate(context.gateway.map(ask, requests, self), 1):
            answers.append(one)
            context.progress(f"asking {self.model}", number, len(requests))
        return answers

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

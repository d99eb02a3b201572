"""Asks a judge's model for a verdict in JSON: of servers that know its schema, and of those that do not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pydantic import BaseModel

from rag_assay.evals.judging.case_fitting import reply_room
from rag_assay.evals.judging.contract import JudgeContext
from rag_assay.evals.judging.judge_refusals import refusal_apart
from rag_assay.evals.judging.loose_verdicts import Mend
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Messages
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.structured import (
    Bounds,
    Shape,
    Structured,
    ask_structured,
    response_format_of,
)
from rag_assay.warehouse.schemas import Status


@dataclass(frozen=True)
class ReplySchema:
    """The JSON that a verdict is.

    name: of its schema
    bounds: see `response_format_of`
    check: raises ValueError for what has the shape and is of no use
    mend: reads a reply that is no such JSON
    """

    shape: type[BaseModel]
    name: str
    bounds: Bounds
    check: Callable[[BaseModel], None]
    mend: Mend
    max_tokens: int


class ReplyBudget(NamedTuple):
    """How long a reply may be, in tokens.

    wanted: at most
    least: with less than this, and less than wanted, nothing is sent
    window: tokens that the model reads, as the recipe says; None: what is known of it
    """

    wanted: int
    least: int
    window: int | None = None


@dataclass(frozen=True)
class VerdictAsker:
    """Asks for verdicts in one run, and remembers whether the server refuses schemas.

    A reply that is no JSON of the shape is read where it can be read in one way only; else the model is asked
    once more, with its reply and what is wrong with it.
    """

    chat: ChatModel
    context: JudgeContext
    _refused: threading.Event = field(default_factory=threading.Event)

    def ask(self, messages: Messages, wanted: ReplySchema, question_id: str | None) -> Structured[BaseModel]:
        """Ask for a verdict."""

        def sent(chat: Messages) -> Reply:
            return _mended(self._reply(chat, wanted, question_id), wanted.mend)

        return refusal_apart(ask_structured(sent, messages, wanted.shape, wanted.check))

    def _reply(self, messages: Messages, wanted: ReplySchema, question_id: str | None) -> Reply:
        schema = response_format_of(wanted.shape, wanted.name, wanted.bounds)
        if not self._refused.is_set():
            reply = self._send(messages, wanted, question_id, schema)
            if not _refuses_schemas(reply):
                return reply
            self._refused.set()
        return self._send(messages, wanted, question_id, None)

    def _send(
        self,
        messages: Messages,
        wanted: ReplySchema,
        question_id: str | None,
        schema: dict[str, object] | None,
    ) -> Reply:
        return self.context.gateway.ask(
            self.chat,
            messages,
            max_tokens=wanted.max_tokens,
            seed=self.context.seed,
            response_format=schema,
            replicate=self.context.replicate,
            purpose=self.context.purpose.of(question_id),
        )


def _refuses_schemas(reply: Reply) -> bool:
    reason = (reply.reason or "").lower()
    return reply.status is Status.ERROR and any(
        words in reason for words in ("response_format", "json_schema", "response format")
    )


def _mended(reply: Reply, mend: Mend) -> Reply:
    """Return a reply whose text is the JSON that it means, where it is none and that is sure."""
    mended = mend(reply.text) if reply.status is Status.OK else None
    return reply if mended is None else replace(reply, text=mended)


def ask_in_room(  # noqa: PLR0913 - the parameters of a request, by name
    chat: ChatModel,
    context: JudgeContext,
    messages: Messages,
    shape: type[Shape],
    *,
    name: str,
    room: ReplyBudget,
    question_id: str | None,
    bounds: Bounds | None = None,
    check: Callable[[Shape], None] | None = None,
    replicate: int | None = None,
) -> Structured[Shape]:
    """Ask for JSON of a shape, for a reply that the model's window has room for; else nothing is sent.

    name: of the schema
    replicate: in place of the context's
    """
    left = reply_room(chat, context.gateway, messages, room.wanted, room.window)
    if left < min(room.wanted, room.least):
        reason = f"the prompt leaves {max(0, left)} tokens of the model's window for its reply; not asked"
        return Structured(None, Status.TRUNCATED, reason, ())
    found = context.gateway.structured(
        chat,
        messages,
        shape,
        name=name,
        max_tokens=left,
        seed=context.seed,
        replicate=context.replicate if replicate is None else replicate,
        bounds=bounds,
        check=check,
        purpose=context.purpose.of(question_id),
    )
    return refusal_apart(found)

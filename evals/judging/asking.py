"""Asks a judge's model for a verdict in JSON: of servers that know its schema, and of those that do not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pydantic import BaseModel

from evals.judging.contract import JudgeContext
from evals.judging.loose_verdicts import Mend
from warehouse.inference.chat_model import ChatModel
from warehouse.inference.gateway import Messages
from warehouse.inference.replies import Reply
from warehouse.inference.structured import (
    Bounds,
    Structured,
    ask_structured,
    response_format_of,
)
from warehouse.schemas import Status


@dataclass(frozen=True)
class Wanted:
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


@dataclass(frozen=True)
class VerdictAsker:
    """Asks for verdicts in one run, and remembers whether the server refuses schemas.

    A reply that is no JSON of the shape is read where it can be read in one way only; else the model is asked
    once more, with its reply and what is wrong with it.
    """

    chat: ChatModel
    context: JudgeContext
    _refused: threading.Event = field(default_factory=threading.Event)

    def ask(self, messages: Messages, wanted: Wanted, question_id: str | None) -> Structured[BaseModel]:
        """Ask for a verdict."""

        def sent(chat: Messages) -> Reply:
            return _mended(self._reply(chat, wanted, question_id), wanted.mend)

        return ask_structured(sent, messages, wanted.shape, wanted.check)

    def _reply(self, messages: Messages, wanted: Wanted, question_id: str | None) -> Reply:
        schema = response_format_of(wanted.shape, wanted.name, wanted.bounds)
        if not self._refused.is_set():
            reply = self._send(messages, wanted, question_id, schema)
            if not _refuses_schemas(reply):
                return reply
            self._refused.set()
        return self._send(messages, wanted, question_id, None)

    def _send(
        self, messages: Messages, wanted: Wanted, question_id: str | None, schema: dict[str, object] | None
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

"""Reads requests: chat completions as OpenAI has them, and `/retrieve`; a wrong field is named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rag_assay.evals.retrieval.query import REMOVABLE, Removal
from rag_assay.orchestration.server.failures import BadRequestError

Body = Mapping[str, Any]

MOST_TURNS = 200
MOST_PASSAGES = 100
MOST_REMOVALS = 50
IGNORED = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "seed",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "user",
        "logit_bias",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "reasoning_effort",
        "verbosity",
        "parallel_tool_calls",
    }
)
"""Read and passed over: how the model is asked is part of the recipe that was measured."""

_READ = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "n",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "response_format",
        "logprobs",
        "top_logprobs",
        "modalities",
        "audio",
        "language",
        "asked_at",
        "sources",
        "without",
    }
)
_NOTHING = {
    "tools": (None, []),
    "functions": (None, []),
    "tool_choice": (None, "none", "auto"),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "n": (None, 1),
}
"""What each of these may say: all else asks for something that a measured pipeline does not do."""


@dataclass(frozen=True)
class ChatQuestion:
    """A question as it came in.

    conversation: what was said before, question and answer by turns, oldest first
    language: two-letter code; None: not said
    asked_at: ISO 8601 day or time; None: not said
    without: what is not to be understood of it
    """

    question: str
    conversation: tuple[str, ...] = ()
    language: str | None = None
    asked_at: str | None = None
    without: tuple[Removal, ...] = ()

    def row(self) -> dict[str, Any]:
        return {
            "question_id": "asked",
            "question": self.question,
            "language": self.language,
            "asked_at": self.asked_at,
            "conversation": list(self.conversation),
            "evidence": [],
        }


@dataclass(frozen=True)
class ChatRequest:
    """A request for a chat completion.

    streams: whether it is answered piece by piece
    wants_usage: whether the stream ends with the token counts
    lists_sources: whether the sources are listed below the answer, too
    """

    model: str
    asked: ChatQuestion
    streams: bool = False
    wants_usage: bool = False
    lists_sources: bool = True


@dataclass(frozen=True)
class RetrieveRequest:
    """A request for passages; `k`: how many at most, None: all that the retriever delivers."""

    asked: ChatQuestion
    k: int | None = None


def read_json(data: bytes) -> Body:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadRequestError("the body must be a JSON object")
    return found


def read_chat(body: Body, longest: int) -> ChatRequest:
    """Return a request for a chat completion.

    longest: characters that a question may have
    """
    for name in body:
        if name not in _READ and name not in IGNORED:
            raise BadRequestError(f"unrecognized request argument: {name}", name, "unknown_parameter")
    for name, allowed in _NOTHING.items():
        if not any(body.get(name) == one and type(body.get(name)) is type(one) for one in allowed):
            raise BadRequestError(
                f"`{name}` is not supported: the recipe of the pipeline says how it answers",
                name,
                "unsupported_parameter",
            )
    model = body.get("model")
    if not isinstance(model, str):
        raise BadRequestError("`model` must be a name, as /v1/models lists it", "model")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise BadRequestError("`stream_options` must be an object", "stream_options")
    listed = body.get("sources", "markdown")
    if listed not in {"markdown", "field"}:
        raise BadRequestError("`sources` must be `markdown` or `field`", "sources")
    question, conversation = _said(body.get("messages"))
    asked = _asked(body, question, conversation, longest, "messages")
    return ChatRequest(
        model,
        asked,
        _flag(body, "stream"),
        bool(options and _flag(options, "include_usage")),
        listed == "markdown",
    )


def read_retrieve(body: Body, longest: int) -> RetrieveRequest:
    for name in body:
        if name not in {"question", "k", "conversation", "asked_at", "language", "without"}:
            raise BadRequestError(f"unknown field: {name}", name, "unknown_parameter")
    question = body.get("question")
    if not isinstance(question, str):
        raise BadRequestError("`question` must be text", "question")
    turns = body.get("conversation") or []
    if not isinstance(turns, list) or not all(isinstance(one, str) for one in turns):
        raise BadRequestError("`conversation` must be a list of texts", "conversation")
    if len(turns) > MOST_TURNS:
        raise BadRequestError(f"`conversation` has more than {MOST_TURNS} turns", "conversation")
    k = body.get("k")
    if k is not None and (type(k) is not int or not 1 <= k <= MOST_PASSAGES):
        raise BadRequestError(f"`k` must be a whole number from 1 to {MOST_PASSAGES}", "k")
    return RetrieveRequest(_asked(body, question, tuple(turns), longest, "question"), k)


def _asked(
    body: Body, question: str, conversation: tuple[str, ...], longest: int, field: str
) -> ChatQuestion:
    if not question.strip():
        raise BadRequestError("the question is empty", field)
    if len(question) > longest:
        raise BadRequestError(
            f"the question has {len(question):,} characters, more than {longest:,}",
            field,
            "string_above_max_length",
        )
    for text in (question, *conversation):
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            raise BadRequestError("the text holds half of a surrogate pair, which is no character", field)
    language = body.get("language")
    if language is not None and not (isinstance(language, str) and len(language) == 2 and language.isalpha()):
        raise BadRequestError("`language` must be a two-letter code, as in `de`", "language")
    language = language.lower() if language else None
    without = _removals(body.get("without"))
    return ChatQuestion(question, conversation, language, _day(body.get("asked_at")), without)


def _removals(written: object) -> tuple[Removal, ...]:
    """Return what a question is asked without; an item as a response has it in `understood` will do."""
    wrong = BadRequestError(
        f"`without` must be a list of at most {MOST_REMOVALS} objects with a `step` "
        f"({', '.join(REMOVABLE)}), and perhaps a `kind` and a `value`",
        "without",
    )
    if written is None:
        return ()
    if not isinstance(written, list) or len(written) > MOST_REMOVALS:
        raise wrong
    found = []
    for one in written:
        said = [one.get(name) for name in Removal._fields] if isinstance(one, dict) else [None]
        if said[0] not in REMOVABLE or not all(value is None or isinstance(value, str) for value in said):
            raise wrong
        found.append(Removal(*said))
    return tuple(found)


def _day(written: object) -> str | None:
    if written is None:
        return None
    if not isinstance(written, str) or len(written) > 40:
        raise BadRequestError("`asked_at` must be a date, as in 2026-03-31", "asked_at")
    try:
        datetime.fromisoformat(written)
    except ValueError:
        raise BadRequestError("`asked_at` must be a date, as in 2026-03-31", "asked_at") from None
    return written


def _flag(body: Body, name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadRequestError(f"`{name}` must be true or false", name)
    return bool(value)


# Messages --------------------------------------------------------------------------------------------------


def _said(messages: object) -> tuple[str, tuple[str, ...]]:
    """Return the last user message, and what was said before it by turns.

    System and developer messages are passed over: the prompt is that of the recipe.
    """
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("`messages` must be a list of at least one message", "messages")
    if len(messages) > MOST_TURNS:
        raise BadRequestError(f"`messages` has more than {MOST_TURNS} messages", "messages")
    said: list[tuple[str, str]] = []
    for place, one in enumerate(messages):
        where = f"messages[{place}]"
        role = one.get("role") if isinstance(one, dict) else None
        if role not in {"system", "developer", "user", "assistant"}:
            raise BadRequestError(
                f"`{where}.role` must be system, developer, user or assistant", f"{where}.role"
            )
        text = _text(one.get("content"), where, role)
        if role in {"user", "assistant"}:
            said.append((role, text))
    if not said or said[-1][0] != "user":
        raise BadRequestError("the last message must be the user's: it is the question", "messages")
    return said[-1][1], alternate_roles(said[:-1])


def alternate_roles(said: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return messages as question and answer by turns: what one side says in a row is one turn.

    >>> alternate_roles([("user", "Hi."), ("user", "Who?"), ("assistant", "Ada."), ("assistant", "And Bo.")])
    ('Hi.\\n\\nWho?', 'Ada.\\n\\nAnd Bo.')
    >>> alternate_roles([("assistant", "Welcome.")])
    ('', 'Welcome.')
    """
    turns: list[str] = []
    last = None
    for role, text in said:
        if role == last:
            turns[-1] = f"{turns[-1]}\n\n{text}"
            continue
        if last is None and role == "assistant":
            turns.append("")
        turns.append(text)
        last = role
    return tuple(turns)


def _text(content: object, where: str, role: str) -> str:
    if isinstance(content, str):
        return content
    if content is None and role == "assistant":
        return ""
    if not isinstance(content, list) or not content:
        raise BadRequestError(f"`{where}.content` must be text", f"{where}.content")
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise BadRequestError(
                f"`{where}.content` may have parts of the type `text` alone", f"{where}.content"
            )
    return "\n".join(part["text"] for part in content)

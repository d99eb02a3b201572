"""Forms of requests: chat completions as OpenAI has them, and `/retrieve`; a wrong field is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from rag_assay.evals.chat.question_requests import QuestionRequest, check_question
from rag_assay.orchestration.server.failures import BadRequestError

MOST_TURNS = 200
MOST_PASSAGES = 100
MOST_REMOVALS = 50
_NOTHING: dict[str, tuple[object, ...]] = {
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "audio": (),
    "moderation": (),
    "web_search_options": (),
    "n": (1,),
}
"""What each of these may say beside null; all else asks for what a measured pipeline does not do."""


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    asked_at: Annotated[
        str | None,
        Field(description="ISO 8601 day for words such as yesterday; default: they are not read."),
    ] = None
    language: Annotated[
        str | None, Field(description="Two-letter code of the question's language; default: detected.")
    ] = None
    without: Annotated[
        list[str] | None,
        Field(
            max_length=MOST_REMOVALS,
            description="Filters to ignore: `removal` of items of `understood`, or their kinds.",
        ),
    ] = None

    def asked(self, question: str, conversation: Sequence[str], field: str, longest: int) -> QuestionRequest:
        """Return the question; `field` is where it stands, `longest` how many characters it may have."""
        if len(question) > longest:
            too_long = f"the question has {len(question):,} characters, more than {longest:,}"
            raise BadRequestError(too_long, field, "string_above_max_length")
        asking = QuestionRequest(
            question, self.language, self.asked_at, frozenset(self.without or ()), tuple(conversation)
        )
        return check_question(asking, longest)


class AnswerForm(_Form):
    """A question without messages: what the tool `answer` takes."""

    model_config = ConfigDict(extra="forbid")

    question: Annotated[str, Field(description="A question in words, in any language of the documents.")]
    conversation: Annotated[
        list[str] | None,
        Field(
            max_length=MOST_TURNS,
            description="The conversation before: question and answer by turns, oldest first.",
        ),
    ] = None

    def request(self, longest: int) -> QuestionRequest:
        return self.asked(self.question, self.conversation or (), "question", longest)


class SearchForm(AnswerForm):
    """A request for passages: of `/retrieve`, and what the tool `search` takes."""

    k: Annotated[
        int | None, Field(ge=1, le=MOST_PASSAGES, description="Passages to return, at most; default: all.")
    ] = None


def _text(content: object) -> object:
    if not isinstance(content, list) or not content:
        return content
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ValueError("may have parts of the type `text` alone")
    return "\n".join(part["text"] for part in content)


class Message(BaseModel):
    """A message; those of system and developer are passed over: the prompt is that of the recipe."""

    model_config = ConfigDict(frozen=True, strict=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str | None, BeforeValidator(_text)] = None


class StreamOptions(BaseModel):
    """Whether a stream ends with the token counts."""

    model_config = ConfigDict(frozen=True, strict=True)

    include_usage: bool | None = None


class ChatForm(_Form):
    """A request for a chat completion.

    model: the cell's key, as `GET /v1/models` lists it
    messages: the last one is the user's question, those before it are the conversation; system messages
        are ignored
    stream: send the finished answer sentence by sentence as server-sent events
    stream_options: `include_usage` ends a stream with token counts
    sources: `markdown` lists the cited passages below the answer, `field` leaves the answer unchanged
    """

    model: str
    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_TURNS)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    sources: Literal["markdown", "field"] = "markdown"

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def request(self, longest: int) -> QuestionRequest:
        for place, one in enumerate(self.messages):
            if one.content is None and one.role != "assistant":
                raise BadRequestError("the content must be text", f"messages[{place}].content")
        said = [(one.role, one.content or "") for one in self.messages if one.role in {"user", "assistant"}]
        if not said or said[-1][0] != "user":
            raise BadRequestError("the last message must be the user's: it is the question", "messages")
        return self.asked(said[-1][1], alternate_roles(said[:-1]), "messages", longest)


IGNORED = frozenset(CompletionCreateParamsBase.__annotations__) - _NOTHING.keys()
"""Fields of OpenAI that may be there; what else than the form's is passed over, for how the model is asked is
part of the recipe that was measured."""
Form = TypeVar("Form", bound=BaseModel)


def read_json(data: bytes) -> Mapping[str, Any]:
    try:
        found = from_json(data)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadRequestError("the body must be a JSON object")
    return found


def read_chat(body: Mapping[str, Any]) -> ChatForm:
    for name, value in body.items():
        if name in _NOTHING:
            if value is not None and not any(
                value == one and type(value) is type(one) for one in _NOTHING[name]
            ):
                what = f"`{name}` is not supported: the recipe of the pipeline says how it answers"
                raise BadRequestError(what, name, "unsupported_parameter")
        elif name not in IGNORED and name not in ChatForm.model_fields:
            raise BadRequestError(f"unrecognized request argument: {name}", name, "unknown_parameter")
    return read_form(ChatForm, body)


def read_form(form: type[Form], body: Mapping[str, Any]) -> Form:
    try:
        return form.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])[1:]
        code = "unknown_parameter" if first["type"] == "extra_forbidden" else "invalid_value"
        reason = first["msg"].removeprefix("Value error, ")
        raise BadRequestError(f"`{name}`: {reason}", name, code) from None


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

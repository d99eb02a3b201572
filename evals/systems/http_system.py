"""Systems behind HTTP: any JSON endpoint, and servers that speak OpenAI's protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast
from urllib.parse import urlencode

import httpx
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    model_validator,
)

from rag_assay.evals.generation.contract import GenerationContext
from rag_assay.evals.systems.contract import CalledSystem, SystemReply
from rag_assay.evals.systems.given_passages import (
    GivenPassage,
    UnreadableError,
    read_passage,
    read_passages,
    read_reply,
)
from rag_assay.evals.systems.json_template import Selector, check_template, fill, select, select_or_none
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference import http_posts
from rag_assay.warehouse.inference.chat_completions import NoCompletionError, completion_in, send_json
from rag_assay.warehouse.inference.chat_model import Address
from rag_assay.warehouse.inference.egress import (
    Carried,
    Destination,
    NotAllowedError,
    carried_by,
    is_allowed,
    only_to,
    origin,
)
from rag_assay.warehouse.inference.redaction import (
    encode_without_secrets,
    is_secret_parameter,
    know_secret,
    looks_random,
)
from rag_assay.warehouse.inference.replies import Completion

_SHOWN = 6  # keys of a reply that a reason names
Template = Annotated[dict[str, JsonValue], AfterValidator(check_template)]


_OPENAI = re.compile(r"/v1/?$|/chat/completions/?$")


def spec_of_url(url: str) -> dict[str, Any]:
    """Return what a study file says of a system at a URL; one that ends with `/v1` speaks OpenAI's protocol.

    >>> spec_of_url("http://127.0.0.1:9000/v1#my-rag")
    {'openai': {'api_base': 'http://127.0.0.1:9000/v1', 'model': 'my-rag'}}
    >>> spec_of_url("http://127.0.0.1:8000/ask")
    {'http': {'url': 'http://127.0.0.1:8000/ask'}}
    """
    address, _, model = url.partition("#")
    if not _OPENAI.search(address.partition("?")[0]):
        return {"http": {"url": url}}
    base = re.sub(r"/chat/completions/?$", "", address)
    return {"openai": {"api_base": base, "model": model or "rag"}}


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = ("accept-encoding", "connection", "content-length", "host", "transfer-encoding")


def _check_headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid header name")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"the header {name} is set by the client; delete it")
        text = value.get_secret_value()
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"the header {name} holds a line break or another character that is not ASCII")
    return headers


class _Sent(NamedTuple):
    """What each request carries beside its body; public: digest of what is no secret, None: nothing"""

    carried: Carried | None = None
    public: str | None = None


def _sent_with(address: str, headers: Mapping[str, str]) -> _Sent:
    """Return what requests carry, and keep the secrets of the headers out of what is stored."""
    carried = carried_by(address)
    public: list[list[str]] = []
    for name, hidden in carried.query:
        value = hidden.get_secret_value()
        if not (is_secret_parameter(name) or _is_from_environment(address, value)):
            public.append(["query", name, value])
    for name, value in headers.items():
        is_secret = is_secret_parameter(name) or _is_from_environment(value, value)
        if not is_secret:
            public.append(["header", name.lower(), value])
        if is_secret or looks_random(value):
            know_secret(value)
            know_secret(value.rpartition(" ")[2])  # behind `Bearer`
    return _Sent(carried, digest(sorted(public)) if public else None)


def _is_from_environment(text: str, value: str) -> bool:
    return any(one in value for one in getattr(text, "values", ()) if one)


class HttpSystem(CalledSystem):
    """A system behind HTTP.

    headers: sent with each request; write secrets as `${NAME}`: their values are not part of an identity
    passages: selects the passages' texts, or objects with `text`, `url`, `id` and `score`
    urls, ids: select the URL or id of each passage's document; default: those of the passage objects
    """

    address_field: ClassVar[str]

    headers: Annotated[dict[str, SecretStr], AfterValidator(_check_headers)] = Field(default_factory=dict)
    passages: Selector | None = None  # type: ignore[assignment] # a place in a reply
    urls: Selector | None = None
    ids: Selector | None = None
    _sent: _Sent = PrivateAttr(default=_Sent())

    @model_validator(mode="wrap")
    @classmethod
    def _keeps_what_it_sends(cls, written: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        found = handler(written)
        if isinstance(written, dict):
            found._sent = _sent_with(written[cls.address_field], written.get("headers") or {})
        return found

    @property
    def address(self) -> str:
        address: str = getattr(self, self.address_field)
        return address

    def meaning(self) -> dict[str, JsonValue]:
        return {**super().meaning(), **self._public}

    @property
    def _public(self) -> dict[str, JsonValue]:
        return {} if self._sent.public is None else {"sent": self._sent.public}

    def _post(self, method: str, url: str, body: Any, timeout: float) -> httpx.Response | http_posts.Response:
        server = origin(url)
        if not is_allowed(server):
            raise NotAllowedError(f"not sent: {server} is not among the servers that the study names")
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        data = b"" if body is None else json.dumps(body).encode()
        with only_to(Destination(frozenset({server}), self._sent.carried)):
            return send_json(method, url, data, headers, timeout)

    def passages_in(self, given: object) -> tuple[GivenPassage, ...] | None:
        """Return the passages in a reply; None: the recipe does not say where they stand.

        Raises:
            UnreadableError: the selectors find unequal numbers, or no passages.
        """
        wanted = {"passages": self.passages, "urls": self.urls, "ids": self.ids}
        found = {name: _selected(given, name, one) for name, one in wanted.items() if one}
        if not found:
            return None
        if len({len(values) for values in found.values()}) > 1:
            counts = " and ".join(f"`{name}` selects {len(values)}" for name, values in found.items())
            raise UnreadableError(f"{counts}: each passage needs one of each")
        read = []
        for number in range(len(next(iter(found.values())))):
            one = found["passages"][number] if "passages" in found else None
            passage = GivenPassage() if one is None else read_passage(one)
            named = {
                field: str(found[name][number])
                for name, field in (("urls", "url"), ("ids", "document"))
                if name in found and found[name][number] is not None
            }
            passage = passage._replace(**named)  # type: ignore[arg-type]
            if not passage.is_empty:
                read.append(passage)
        if any(found.values()) and not read:
            raise _selects_nothing(given, *next((name, one) for name, one in wanted.items() if one))
        return tuple(read)


class Http(HttpSystem):
    """Calls any endpoint that takes a question as JSON and gives JSON.

    url: of the endpoint; its user, password and query are never stored
    method: with GET, `body` becomes the query
    body: JSON with placeholders: `{{ question }}`, `{{ messages }}`, `{{ history }}`, `{{ language }}`,
        `{{ question_id }}`, `{{ asked_at }}`
    answer: selects the text of the answer; without it, the system only retrieves. Without any selector,
        answer and passages are found by common names, such as `answer`, `passages` and `sources`
    """

    model_config = ConfigDict(serialize_by_alias=True)
    kind: ClassVar[str] = "http"
    address_field: ClassVar[str] = "url"

    url: Address
    method: Literal["POST", "GET"] = "POST"
    body: Template = Field(default={"question": "{{ question }}"})
    selected_answer: Annotated[Selector | None, Field(alias="answer")] = None

    @property
    def _reads_by_name(self) -> bool:
        return not (self.selected_answer or self.passages or self.urls or self.ids)

    @property
    def target(self) -> str:
        return self.url

    @property
    def has_answers(self) -> bool:
        return self.selected_answer is not None or self._reads_by_name

    def request(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        body = fill(self.body, values)
        return {"method": self.method, "body": body, "headers": sorted(self.headers), **self._public}

    def send(self, request: dict[str, JsonValue], timeout: float, context: GenerationContext) -> Completion:
        body = cast("dict[str, JsonValue]", request["body"])
        if self.method == "POST":
            response = self._post("POST", self.url, body, timeout)
        else:
            query = urlencode({name: _as_text(one) for name, one in body.items() if one is not None})
            response = self._post("GET", f"{self.url}?{query}", None, timeout)
        return _completion(_body(response, may_be_text=self.selected_answer == "$" or self._reads_by_name))

    def read(self, given: object) -> SystemReply:
        if self._reads_by_name:
            text, listed = read_reply(given)
            return SystemReply(text, None if listed is None else read_passages(listed))
        passages = self.passages_in(given)
        if self.selected_answer is None:
            return SystemReply(None, passages)
        text = next((one for one in select(given, self.selected_answer) if one is not None), None)
        if text is None and not passages:
            raise _selects_nothing(given, "answer", self.selected_answer)
        return SystemReply(_as_text(text), passages)


class OpenAi(HttpSystem):
    """Calls a RAG server that speaks OpenAI's protocol (`/chat/completions`).

    api_base: address of the server, without `/chat/completions`
    model: name of the model to request
    options: sent with each request, such as `temperature`
    passages: default: the first of `context`, `sources`, `citations`, `documents`, `search_results`,
        `tool_results`, `annotations` that the message or the reply has
    """

    kind: ClassVar[str] = "openai"
    address_field: ClassVar[str] = "api_base"

    api_base: Address
    model: Annotated[str, Field(min_length=1, max_length=200)]
    options: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def target(self) -> str:
        return self.model

    def request(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        body = {**self.options, "model": self.model, "messages": values["messages"]}
        return {"body": body, "headers": [*sorted(self.headers)], **self._public}

    def send(self, request: dict[str, JsonValue], timeout: float, context: GenerationContext) -> Completion:
        url = f"{self.api_base.rstrip('/')}/chat/completions"
        response = self._post("POST", url, request["body"], timeout)
        found = completion_in(response.content, response)
        if not found.get("choices"):
            raise NoCompletionError("the server's answer is not a chat completion: it has no `choices`")
        return _completion(found)

    def read(self, given: object) -> SystemReply:
        messages = select(given, "$.choices[0].message")
        if not messages:
            raise UnreadableError("the server's answer is not a chat completion: it has no `choices`")
        passages = self.passages_in(given)
        if passages is None:
            there = [one for one in map(_read_if_passages, _sources(given)) if one is not None]
            passages = next(filter(None, there), () if there else None)
        text = next((one for one in select(given, "$.choices[0].message.content") if one), None)
        return SystemReply(_as_text(text), passages)


_PLACES = (
    *("context.citations", "context.documents", "context", "sources", "source_documents"),
    *("citations", "search_results", "documents", "contexts", "tool_results"),
)


def _sources(given: Any) -> list[Any]:
    places = [f"$.choices[0].message.{name}" for name in _PLACES]
    places += ["$.choices[0].message.annotations[*].url_citation"]
    places += [f"$.{name}" for name in _PLACES]
    return [_listed(found) for found in (select(given, place) for place in places) if found]


def _read_if_passages(values: list[Any]) -> tuple[GivenPassage, ...] | None:
    texts = [one for one in values if isinstance(one, str)]
    if len(texts) == len(values) and all(one.startswith(("http://", "https://")) for one in texts):
        return tuple(GivenPassage(url=one) for one in texts)
    try:
        return read_passages(values)
    except UnreadableError:
        return None


def _listed(values: list[Any]) -> list[Any]:
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _selected(given: object, name: str, selector: str) -> list[Any]:
    values = select_or_none(given, selector)
    if values is None:
        raise _selects_nothing(given, name, selector)
    return [] if values == [None] and "*" not in selector and ".." not in selector else _listed(values)


def _selects_nothing(given: object, name: str, selector: str) -> UnreadableError:
    keys = ", ".join(list(given)[:_SHOWN]) if isinstance(given, Mapping) else type(given).__name__
    return UnreadableError(f"`{name}: {selector}` selects nothing; the reply has: {keys or 'nothing'}")


def _body(response: httpx.Response | http_posts.Response, *, may_be_text: bool) -> Any:
    """Return the JSON of a response, or its text; raises NoCompletionError."""
    if not response.content.strip():
        raise NoCompletionError("the server's answer is empty")
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        if not may_be_text or "json" in response.headers.get("content-type", ""):
            raise NoCompletionError("the server's answer is not JSON") from None
        return response.content.decode("utf-8", "replace")


def _completion(data: Any) -> Completion:
    """Return what a server gave; raises NoCompletionError: it cannot be stored."""
    try:
        data, whole = encode_without_secrets(data)
    except ValueError as error:
        raise NoCompletionError(f"the server's answer is not JSON ({error})") from None
    usage = data.get("usage") if isinstance(data, dict) else None
    counts = usage if isinstance(usage, dict) else {}
    return Completion(
        content=whole,
        finish_reason=None,
        refusal=None,
        prompt_tokens=counts.get("prompt_tokens"),
        completion_tokens=counts.get("completion_tokens"),
        response=whole,
        priced=None,
    )

"""The server's paths and MCP tools, and the forms of their responses.

Beside OpenAI's fields, responses have the record that a conversation keeps of a turn.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

from openai.types import CompletionUsage, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_chunk import Choice as PieceChoice
from openai.types.chat.chat_completion_chunk import ChoiceDelta
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.chat.open_questions import DECLINED
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.chat.turn_records import shown_passages, understood_of
from rag_assay.evals.generation.contract import Answer
from rag_assay.orchestration.question_service.opened_cell import OpenedCell
from rag_assay.orchestration.question_service.worker_pool import Workers
from rag_assay.orchestration.server.chat_requests import (
    AnswerForm,
    ChatForm,
    SearchForm,
    read_chat,
    read_form,
    read_json,
)
from rag_assay.orchestration.server.failures import RequestError, refuse_failed, request_error
from rag_assay.orchestration.server.guard import AccessRules, Guard, Log
from rag_assay.orchestration.server.mcp_server import Reply, ToolDefinition, mcp_server
from rag_assay.warehouse.conversations import ShownPassage, Turn
from rag_assay.warehouse.schemas import Status

Record = dict[str, Any]
_SIGNS = re.compile(r"([\\`*_\[\]<>#|~!])")


def answered(opened: OpenedCell, asking: QuestionRequest) -> Turn:
    """Return the turn of a question that was answered; RequestError: there is no answer."""
    if opened.pipeline.generator is None:
        what = "this cell has no generator: it finds passages and answers nothing; ask /retrieve"
        raise RequestError(404, what, param="model", code="model_not_found")
    turn = opened.answer(asking)
    refuse_failed(turn)
    return turn


def completion(turn: Turn, model: str, *, lists_sources: bool) -> ChatCompletion:
    """Return a chat completion with the record of its turn; lists_sources: cited sources end its text."""
    text = turn.answer or ""
    read, written = turn.prompt_tokens or 0, turn.completion_tokens or 0
    is_declined = turn.status in DECLINED
    content = text_with_sources(turn) if lists_sources else text
    found = Choice(
        index=0,
        message=ChatCompletionMessage(
            role="assistant", content=content, refusal=text if is_declined else None
        ),
        logprobs=None,
        finish_reason="length" if turn.status is Status.TRUNCATED else "stop",
    )
    return ChatCompletion.model_validate(
        {
            "id": f"chatcmpl-{uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [found],
            "usage": CompletionUsage(
                prompt_tokens=read, completion_tokens=written, total_tokens=read + written
            ),
            "sources": [one.model_dump(mode="json") for one in turn.passages],
            "assay": turn.model_dump(mode="json", exclude={"passages"}),
        }
    )


def text_with_sources(turn: Turn) -> str:
    listed = source_list([one for one in turn.passages if one.cited])
    return f"{turn.answer}\n\n{listed}" if listed and turn.status not in DECLINED else turn.answer or ""


def source_list(cited: Sequence[ShownPassage]) -> str:
    r"""Write sources as lines of Markdown; titles and addresses of documents are text, whatever is in them.

    >>> one = ShownPassage(number=2, chunk_id="c", doc_id="d", text="", title="A [b]\n# c",
    ...     url="https://x.example/a b")
    >>> source_list([one])
    'Sources:\n\n- [2] [A \\[b\\] \\# c](<https://x.example/a%20b>)'
    >>> source_list([one.model_copy(update={"title": None, "url": "javascript:alert(1)"})])
    'Sources:\n\n- [2] javascript:alert(1)'
    """
    lines = []
    for one in cited:
        url = one.url or ""
        label = _SIGNS.sub(r"\\\1", " ".join((one.title or url or one.doc_id).split()))
        link = _link(url)
        lines.append(f"- [{one.number}] " + (f"[{label}](<{link}>)" if link else label))
    return "\n".join(["Sources:", "", *lines]) if lines else ""


def _link(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    return quote(url, safe=":/?#[]@!$&'()*+,;=%~-._")


# In chunks -------------------------------------------------------------------------------------------------


def chunks(reply: ChatCompletion, *, wants_usage: bool) -> Iterator[str]:
    """Yield a completion as server-sent events: its text sentence by sentence, then how it ended.

    The answer is whole before the first chunk: markers are resolved and refusals known by all of it, as they
    were when it was measured.
    """
    (choice,) = reply.choices
    pieces = [ChoiceDelta(role="assistant", content="")]
    pieces += [ChoiceDelta(content=piece) for piece in sentences(choice.message.content or "")]
    pieces += [ChoiceDelta(refusal=choice.message.refusal)] if choice.message.refusal else []
    for piece in pieces:
        yield _chunk(reply, choices=[PieceChoice(index=0, delta=piece, finish_reason=None)])
    last = {"index": 0, "delta": ChoiceDelta(), "finish_reason": choice.finish_reason}
    yield _chunk(reply, choices=[last], **(reply.model_extra or {}))
    if wants_usage:
        yield _chunk(reply, choices=[], usage=reply.usage)


def _chunk(reply: ChatCompletion, **more: object) -> str:
    known = {
        "id": reply.id,
        "created": reply.created,
        "model": reply.model,
        "object": "chat.completion.chunk",
    }
    return event(ChatCompletionChunk.model_validate({**known, **more}).model_dump_json(exclude_unset=True))


def sentences(text: str) -> list[str]:
    """Cut a text after its sentences; together the pieces are the text.

    >>> sentences("At noon. It calls at the island.")
    ['At noon. ', 'It calls at the island.']
    """
    starts = [start for start, _ in sentence_places(text)][1:]
    places = [0, *starts, len(text)]
    return [text[start:end] for start, end in pairwise(places) if end > start]


def event(data: str) -> str:
    return f"data: {data}\n\n"


# Passages ---------------------------------------------------------------------------------------


def found_passages(opened: OpenedCell, asking: QuestionRequest, k: int | None) -> Record:
    result, ids = opened.search(asking), opened.pipeline.retrieval.index.ids
    found = result.found
    if found.status is not Status.OK:
        reason = found.reason or "the search failed"
        raise RequestError(500, reason, kind="server_error", code="search_failed")
    shown = shown_passages(result, Answer(Status.OK), opened.places(), result.question["language"])[:k]
    steps = [
        (step.step, step.kind, {chunk: rank for rank, chunk in enumerate(ids.gather(step.rows), 1)})
        for step in found.trace.steps
    ]
    return {
        "object": "list",
        "question": asking.question,
        "passages": [
            {
                **passage.model_dump(mode="json", exclude={"cited", "evidence"}),
                "steps": [
                    {"step": name, "kind": kind, "rank": ranks[passage.chunk_id]}
                    for name, kind, ranks in steps
                    if passage.chunk_id in ranks
                ],
            }
            for passage in shown
        ],
        "notes": [note._asdict() for note in found.trace.notes],
        "understood": [one.model_dump(mode="json") for one in understood_of(result)],
    }


# Paths -----------------------------------------------------------------------------------------------------

PASSAGES = 5  # that `search` returns, unless it is asked for more


Body = TypeVar("Body")
Handler = Callable[[Request], Awaitable[Response]]
ALIVE = 5.0  # seconds after which a stream says that it is there, and an error can be no status any more


def application(workers: Workers, opened: OpenedCell, rules: AccessRules, log: Log) -> ASGIApp:
    server = _Server(workers, opened)
    routes: list[BaseRoute] = [
        Route("/v1/chat/completions", _told(server.chat), methods=["POST"]),
        Route("/v1/models", _told(server.models), methods=["GET"]),
        Route("/v1/models/{name:path}", _told(server.model), methods=["GET"]),
        Route("/retrieve", _told(server.retrieve), methods=["POST"]),
        Route("/health", _told(server.health), methods=["GET"]),
        Route("/mcp", server, methods=["GET", "POST", "DELETE"]),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with server.mcp.run():
            yield

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _not_there})
    app.router.redirect_slashes = False
    if not rules.origins:
        return Guard(app, rules, log)
    shared = CORSMiddleware(
        app,
        allow_origins=sorted(rules.origins),
        allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type"],
    )
    return Guard(shared, rules, log)


class _Server:
    """The handlers of paths; it is that of MCP: a `POST` of a JSON-RPC message, answered by one of JSON."""

    def __init__(self, workers: Workers, opened: OpenedCell) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        self._workers = workers
        self._opened = opened
        self._longest = workers.limits.question
        self._model = Model(id=opened.key, object="model", created=int(time.time()), owned_by="rag-assay")
        find = (
            f"Find passages of the documents for a question, with titles and addresses. Default: {PASSAGES}."
        )
        tell = "Answer a question from the documents, with numbered sources."
        tools = {
            "search": ToolDefinition(find, SearchForm, self._search),
            "answer": ToolDefinition(tell, AnswerForm, self._answer),
        }
        self.mcp = StreamableHTTPSessionManager(
            mcp_server(f"Passages and answers of {opened.key}, as they were measured.", tools),
            json_response=True,
            stateless=True,
            # Hosts and origins are checked before any path is.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=workers.limits.body,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.mcp.handle_request(scope, receive, send)

    async def _search(self, wanted: SearchForm) -> Reply:
        asking = wanted.request(self._longest)
        record = await self._workers.do(partial(found_passages, self._opened, asking, wanted.k or PASSAGES))
        shown = [
            f"[{one['number']}] {one['title'] or one['doc_id']} {one['url'] or ''}\n{one['text']}"
            for one in record["passages"]
        ]
        return "\n\n".join(shown) or "Nothing was found.", record

    async def _answer(self, wanted: AnswerForm) -> Reply:
        turn = await self._workers.do(partial(answered, self._opened, wanted.request(self._longest)))
        return text_with_sources(turn), turn.model_dump(mode="json")

    async def chat(self, request: Request) -> Response:
        chat = read_chat(read_json(await request.body()))
        asking = chat.request(self._longest)
        self._check_model(chat.model)

        def work() -> ChatCompletion:
            turn = answered(self._opened, asking)
            return completion(turn, chat.model, lists_sources=chat.sources == "markdown")

        reply = asyncio.ensure_future(self._workers.do(work))
        if not chat.stream:
            found = await _or_cancelled(reply, request)
            return JSONResponse(found.model_dump(mode="json", exclude_unset=True))
        await asyncio.wait([reply], timeout=ALIVE)
        if reply.done():
            reply.result()  # what has failed by now has its own status
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(_stream(reply, chat), media_type="text/event-stream", headers=headers)

    async def retrieve(self, request: Request) -> Response:
        wanted = read_form(SearchForm, read_json(await request.body()))
        work = partial(found_passages, self._opened, wanted.request(self._longest), wanted.k)
        return JSONResponse(await _or_cancelled(asyncio.ensure_future(self._workers.do(work)), request))

    async def models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model.model_dump()]})

    async def model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(self._model.model_dump())

    async def health(self, _request: Request) -> Response:
        opened, is_open = self._opened, self._workers.is_open
        body = {
            "status": "ok" if is_open else "stopping",
            "live": True,
            "ready": is_open,
            "model": opened.key,
            "source": opened.source,
            "digest": opened.digest,
            "as_measured": not opened.differences,
            "differences": list(opened.differences),
            "under_way": self._workers.under_way,
        }
        return JSONResponse(body, 200 if is_open else 503)

    def _check_model(self, name: str) -> None:
        if name != self._opened.key:
            what = f"the model {name[:200]!r} does not exist; this server has {self._opened.key!r}"
            raise RequestError(404, what, param="model", code="model_not_found")


async def _or_cancelled(reply: asyncio.Future[Body], request: Request) -> Body:
    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.ensure_future(disconnected())
    try:
        either: list[asyncio.Future[Any]] = [reply, gone]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            raise RequestError(499, "the client has gone", kind="server_error", code="client_gone")
        return reply.result()
    finally:
        reply.cancel()
        gone.cancel()


async def _stream(reply: asyncio.Future[ChatCompletion], chat: ChatForm) -> AsyncIterator[str]:
    try:
        while not reply.done():
            yield ": being answered\n\n"
            await asyncio.wait([reply], timeout=ALIVE)
        try:
            for one in chunks(reply.result(), wants_usage=chat.wants_usage):
                yield one
        except Exception as error:  # there is no status any more
            yield event(json.dumps(request_error(error).record()))
        yield event("[DONE]")
    finally:
        reply.cancel()


def _told(handler: Handler) -> Handler:
    async def told(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as raised:
            field = "messages" if request.url.path.startswith("/v1/") else "question"
            return request_error(raised, field).response()

    return told


async def _not_there(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {
        404: f"there is no {request.url.path}",
        405: f"{request.url.path} has no method {request.method}",
    }
    found = RequestError(status, words.get(status, "the request failed"), code="not_found")
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return JSONResponse(found.record(), status, headers)

"""The server's paths and MCP tools, thin over the forms of requests and replies."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from openai.types.chat import ChatCompletion
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rag_assay.orchestration.question_service.opened_cell import OpenedCell
from rag_assay.orchestration.question_service.worker_pool import Workers
from rag_assay.orchestration.server import replies
from rag_assay.orchestration.server.chat_requests import (
    AnswerForm,
    ChatForm,
    SearchForm,
    read_chat,
    read_form,
    read_json,
)
from rag_assay.orchestration.server.failures import RequestError, request_error
from rag_assay.orchestration.server.guard import AccessRules, Guard, Log
from rag_assay.orchestration.server.mcp_server import Reply, ToolDefinition, mcp_server

PASSAGES = 5  # that `search` returns, unless it is asked for more


class McpTools:
    """An ASGI application: `POST` of a JSON-RPC message, answered by one of JSON."""

    def __init__(self, workers: Workers, opened: OpenedCell) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        self._workers = workers
        self._opened = opened
        find = (
            f"Find passages of the documents for a question, with titles and addresses. Default: {PASSAGES}."
        )
        tell = "Answer a question from the documents, with numbered sources."
        tools = {
            "search": ToolDefinition(find, SearchForm, self._search),
            "answer": ToolDefinition(tell, AnswerForm, self._answer),
        }
        self._manager = StreamableHTTPSessionManager(
            mcp_server(f"Passages and answers of {opened.key}, as they were measured.", tools),
            json_response=True,
            stateless=True,
            # Hosts and origins are checked before any path is.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=workers.limits.body,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    async def _search(self, wanted: SearchForm) -> Reply:
        asking = wanted.request(self._workers.limits.question)
        found = partial(replies.found_passages, self._opened, asking, wanted.k or PASSAGES)
        record = await self._workers.do(found)
        shown = [
            f"[{one['number']}] {one['title'] or one['doc_id']} {one['url'] or ''}\n{one['text']}"
            for one in record["passages"]
        ]
        return "\n\n".join(shown) or "Nothing was found.", record

    async def _answer(self, wanted: AnswerForm) -> Reply:
        asking = wanted.request(self._workers.limits.question)
        turn = await self._workers.do(partial(replies.answered, self._opened, asking))
        return replies.text_with_sources(turn), turn.model_dump(mode="json")


Body = TypeVar("Body")
Handler = Callable[[Request], Awaitable[Response]]
ALIVE = (
    5.0  # seconds after which a stream says that it is still there, and an error can be no status any more
)


def application(workers: Workers, opened: OpenedCell, rules: AccessRules, log: Log) -> ASGIApp:
    server = _Server(workers, opened)
    tools = McpTools(workers, opened)
    routes: list[BaseRoute] = [
        Route("/v1/chat/completions", _told(server.chat), methods=["POST"]),
        Route("/v1/models", _told(server.models), methods=["GET"]),
        Route("/v1/models/{name:path}", _told(server.model), methods=["GET"]),
        Route("/retrieve", _told(server.retrieve), methods=["POST"]),
        Route("/health", _told(server.health), methods=["GET"]),
        Route("/mcp", tools, methods=["GET", "POST", "DELETE"]),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with tools.running():
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
    def __init__(self, workers: Workers, opened: OpenedCell) -> None:
        self._workers = workers
        self._opened = opened
        self._longest = workers.limits.question
        self._started = int(time.time())

    async def chat(self, request: Request) -> Response:
        chat = read_chat(read_json(await request.body()))
        asking = chat.request(self._longest)
        self._check_model(chat.model)

        def work() -> ChatCompletion:
            turn = replies.answered(self._opened, asking)
            return replies.completion(turn, chat.model, lists_sources=chat.sources == "markdown")

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
        work = partial(replies.found_passages, self._opened, wanted.request(self._longest), wanted.k)
        return JSONResponse(await _or_cancelled(asyncio.ensure_future(self._workers.do(work)), request))

    async def models(self, _request: Request) -> Response:
        model = replies.model(self._opened.key, self._started)
        return JSONResponse({"object": "list", "data": [model]})

    async def model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(replies.model(self._opened.key, self._started))

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
            raise RequestError(
                404,
                f"the model {name[:200]!r} does not exist; this server has {self._opened.key!r}",
                param="model",
                code="model_not_found",
            )


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
            for one in replies.chunks(reply.result(), wants_usage=chat.wants_usage):
                yield one
        except Exception as error:  # there is no status any more
            yield replies.event(json.dumps(request_error(error).record()))
        yield replies.event("[DONE]")
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

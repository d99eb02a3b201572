"""The server's paths, thin over the forms of requests and replies."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from rag_assay.evals.pipeline.pipeline import Pipeline
from rag_assay.orchestration.server import replies
from rag_assay.orchestration.server.chat_requests import (
    ChatQuestion,
    ChatRequest,
    read_chat,
    read_json,
    read_retrieve,
)
from rag_assay.orchestration.server.failures import RequestError
from rag_assay.orchestration.server.guard import AccessRules, Guard, Log
from rag_assay.orchestration.server.mcp_tools import McpTools
from rag_assay.orchestration.server.worker_pool import RequestPool

Handler = Callable[[Request], Awaitable[Response]]
ALIVE = (
    5.0  # seconds after which a stream says that it is still there, and an error can be no status any more
)


@dataclass(frozen=True)
class ServiceInfo:
    """What is served, as `/health` and `/v1/models` tell it.

    name: by which clients ask for it: the cell's key
    source: the folder or study that it was opened from
    digest: of the export, or of the index
    differences: what may make its answers others than those that were measured
    """

    name: str
    source: str
    digest: str
    differences: tuple[str, ...] = ()
    started: int = field(default_factory=lambda: int(time.time()))


def application(desk: RequestPool, facts: ServiceInfo, rules: AccessRules, log: Log) -> ASGIApp:
    """Return the ASGI application of a server."""
    server = _Server(desk, facts)
    tools = McpTools(desk, facts.name)
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
    def __init__(self, desk: RequestPool, facts: ServiceInfo) -> None:
        self._desk = desk
        self._facts = facts

    async def chat(self, request: Request) -> Response:
        chat = read_chat(read_json(await request.body()), self._desk.limits.question)
        self._check_model(chat.model)
        asking = asyncio.ensure_future(self._desk.do(partial(self._completed, chat=chat)))
        if not chat.streams:
            return JSONResponse(await _or_cancelled(asking, request))
        await asyncio.wait([asking], timeout=ALIVE)
        if asking.done():
            asking.result()  # what has failed by now has its own status
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(_stream(asking, chat), media_type="text/event-stream", headers=headers)

    def _completed(self, pipeline: Pipeline, chat: ChatRequest) -> replies.Record:
        result = pipeline.ask_row(chat.asked.row(), without=chat.asked.without)
        request_id = f"chatcmpl-{uuid.uuid4().hex}"
        reply = replies.completion(result, chat.asked, chat.model, request_id, int(time.time()))
        return replies.with_listed_sources(reply) if chat.lists_sources else reply

    async def retrieve(self, request: Request) -> Response:
        wanted = read_retrieve(read_json(await request.body()), self._desk.limits.question)
        asking = asyncio.ensure_future(self._desk.do(partial(found_passages, asked=wanted.asked, k=wanted.k)))
        return JSONResponse(await _or_cancelled(asking, request))

    async def models(self, _request: Request) -> Response:
        return JSONResponse(replies.models(self._facts.name, self._facts.started))

    async def model(self, request: Request) -> Response:
        self._check_model(request.path_params["name"])
        return JSONResponse(replies.model(self._facts.name, self._facts.started))

    async def health(self, _request: Request) -> Response:
        facts = self._facts
        body = {
            "status": "ok" if self._desk.is_open else "stopping",
            "live": True,
            "ready": self._desk.is_open,
            "model": facts.name,
            "source": facts.source,
            "digest": facts.digest,
            "as_measured": not facts.differences,
            "differences": list(facts.differences),
            "under_way": self._desk.under_way,
        }
        return JSONResponse(body, 200 if self._desk.is_open else 503)

    def _check_model(self, name: str) -> None:
        if name != self._facts.name:
            raise RequestError(
                404,
                f"the model {name[:200]!r} does not exist; this server has {self._facts.name!r}",
                param="model",
                code="model_not_found",
            )


def found_passages(pipeline: Pipeline, asked: ChatQuestion, k: int | None) -> replies.Record:
    """Return what `/retrieve` says of a question."""
    ids = pipeline.retrieval.index.ids
    return replies.retrieval_reply(pipeline.search_row(asked.row(), without=asked.without), asked, k, ids)


async def _or_cancelled(asking: asyncio.Future[replies.Record], request: Request) -> replies.Record:
    """Wait for a reply; cancel it as soon as the client has gone."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.ensure_future(disconnected())
    try:
        either: list[asyncio.Future[Any]] = [asking, gone]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise RequestError(499, "the client has gone", kind="server_error", code="client_gone")
        return asking.result()
    finally:
        asking.cancel()
        gone.cancel()


async def _stream(asking: asyncio.Future[replies.Record], chat: ChatRequest) -> AsyncIterator[str]:
    """Yield the events of a stream; what fails after its beginning is an event with the error."""
    try:
        while not asking.done():
            yield ": being answered\n\n"
            await asyncio.wait([asking], timeout=ALIVE)
        try:
            reply = asking.result()
        except RequestError as error:
            yield replies.event(error.record())
            yield replies.DONE
            return
        for one in replies.chunks(reply, wants_usage=chat.wants_usage):
            yield one
    finally:
        asking.cancel()


def _told(handler: Handler) -> Handler:

    async def told(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
            return JSONResponse(error.record(), error.status, headers)

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

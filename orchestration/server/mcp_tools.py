"""The tools `search` and `answer` of an MCP server, over streamable HTTP.

Each request stands for itself: there is no session to be kept or lost, and a tool answers in one reply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from starlette.types import Receive, Scope, Send

from rag_assay.orchestration.question_service.opened_cell import OpenedCell
from rag_assay.orchestration.question_service.worker_pool import Workers
from rag_assay.orchestration.server import replies
from rag_assay.orchestration.server.chat_requests import AnswerForm, SearchForm
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
        """Answer requests in the block."""
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

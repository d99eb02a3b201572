"""The tools `search` and `answer` of an MCP server, over streamable HTTP, by the official SDK.

Each request stands for itself: there is no session to be kept or lost, and a tool answers in one reply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from rag_assay.orchestration.question_service.opened_cell import OpenedCell
from rag_assay.orchestration.question_service.worker_pool import Workers
from rag_assay.orchestration.server import replies
from rag_assay.orchestration.server.chat_requests import AnswerForm, SearchForm, read_form
from rag_assay.orchestration.server.failures import RequestError, request_error

if TYPE_CHECKING:
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult

PASSAGES = 5  # that `search` returns, unless it is asked for more
TOOLS: dict[str, tuple[str, type[AnswerForm]]] = {
    "search": (
        f"Find passages of the documents for a question, with titles and addresses. Default: {PASSAGES}.",
        SearchForm,
    ),
    "answer": ("Answer a question from the documents, with numbered sources.", AnswerForm),
}


class McpTools:
    """An ASGI application: `POST` of a JSON-RPC message, answered by one of JSON."""

    def __init__(self, workers: Workers, opened: OpenedCell) -> None:
        from mcp.server.lowlevel import Server
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        self._workers = workers
        self._opened = opened
        server: Any = Server(
            "rag-assay",
            version=version("rag-assay"),
            instructions=f"Passages and answers of {opened.key}, as they were measured.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
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

    async def _list(self, _context: object, _params: object) -> ListToolsResult:
        from mcp.types import ListToolsResult, Tool

        return ListToolsResult(
            tools=[
                Tool(name=name, description=about, input_schema=form.model_json_schema())
                for name, (about, form) in TOOLS.items()
            ]
        )

    async def _call(self, _context: object, params: CallToolRequestParams) -> CallToolResult:
        from mcp.types import CallToolResult, TextContent

        try:
            text, record = await self._done(params.name, params.arguments or {})
        except Exception as error:
            reason = str(request_error(error))
            return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=record)

    async def _done(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, replies.Record]:
        if name not in TOOLS:
            raise RequestError(404, f"there is no tool {name[:100]!r}; there are {', '.join(TOOLS)}")
        wanted = read_form(TOOLS[name][1], arguments)
        asking = wanted.request(self._workers.limits.question)
        if isinstance(wanted, SearchForm):
            record = await self._workers.do(
                partial(replies.found_passages, self._opened, asking, wanted.k or PASSAGES)
            )
            shown = [
                f"[{one['number']}] {one['title'] or one['doc_id']} {one['url'] or ''}\n{one['text']}"
                for one in record["passages"]
            ]
            return "\n\n".join(shown) or "Nothing was found.", record
        turn = await self._workers.do(partial(replies.answered, self._opened, asking))
        return replies.text_with_sources(turn), turn.model_dump(mode="json")

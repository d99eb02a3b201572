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

from rag_assay.evals.pipeline.pipeline import Pipeline
from rag_assay.evals.retrieval.query import REMOVABLE
from rag_assay.orchestration.server import replies
from rag_assay.orchestration.server.chat_requests import RetrieveRequest, read_retrieve
from rag_assay.orchestration.server.failures import RequestError
from rag_assay.orchestration.server.worker_pool import RequestPool

if TYPE_CHECKING:
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult

PASSAGES = 5  # that `search` returns, unless it is asked for more
_QUESTION: dict[str, Any] = {
    "question": {"type": "string", "description": "A question in words, in any language of the documents."},
    "conversation": {
        "type": "array",
        "items": {"type": "string"},
        "description": "What was said before: question and answer by turns, oldest first.",
    },
    "asked_at": {
        "type": "string",
        "description": "The day of asking, ISO 8601, for words such as yesterday.",
    },
    "language": {"type": "string", "description": "Two-letter code of the question's language."},
    "without": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "step": {"type": "string", "enum": list(REMOVABLE)},
                "kind": {"type": "string"},
                "value": {"type": "string"},
            },
            "required": ["step"],
        },
        "description": "What of the question is not to be understood, as a reply has it in `understood`.",
    },
}
_K = {
    "type": "integer",
    "minimum": 1,
    "maximum": 100,
    "description": "Passages to return, at most; default: 5.",
}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "search": (
        "Find passages of the documents for a question, with titles, addresses and scores.",
        {"k": _K},
    ),
    "answer": ("Answer a question from the documents, with numbered sources.", {}),
}


class McpTools:
    """An ASGI application: `POST` of a JSON-RPC message, answered by one of JSON."""

    def __init__(self, desk: RequestPool, name: str) -> None:
        from mcp.server.lowlevel import Server
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        from mcp.server.transport_security import TransportSecuritySettings

        self._desk = desk
        server: Any = Server(
            "rag-assay",
            version=version("rag-assay"),
            instructions=f"Passages and answers of {name}, as they were measured.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            # Hosts and origins are checked before any path is.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=desk.limits.body,
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

        tools = [
            Tool(
                name=name,
                description=about,
                input_schema={
                    "type": "object",
                    "properties": {**_QUESTION, **more},
                    "required": ["question"],
                    "additionalProperties": False,
                },
            )
            for name, (about, more) in TOOLS.items()
        ]
        return ListToolsResult(tools=tools)

    async def _call(self, _context: object, params: CallToolRequestParams) -> CallToolResult:
        from mcp.types import CallToolResult, TextContent

        try:
            text, record = await self._done(params.name, params.arguments or {})
        except RequestError as error:
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=record)

    async def _done(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, replies.Record]:
        if name not in TOOLS:
            raise RequestError(404, f"there is no tool {name[:100]!r}; there are {', '.join(TOOLS)}")
        if name == "answer" and "k" in arguments:
            raise RequestError(400, "unknown field: k", param="k")
        wanted = read_retrieve(arguments, self._desk.limits.question)
        return await self._desk.do(partial(_searched if name == "search" else _answered, wanted=wanted))


def _searched(pipeline: Pipeline, wanted: RetrieveRequest) -> tuple[str, replies.Record]:
    ids = pipeline.retrieval.index.ids
    result = pipeline.search_row(wanted.asked.row(), without=wanted.asked.without)
    record = replies.retrieval_reply(result, wanted.asked, wanted.k or PASSAGES, ids)
    shown = [
        f"[{one['rank']}] {one['title'] or one['doc_id']} {one['url'] or ''}\n{one['passage']}"
        for one in record["passages"]
    ]
    return "\n\n".join(shown) or "Nothing was found.", record


def _answered(pipeline: Pipeline, wanted: RetrieveRequest) -> tuple[str, replies.Record]:
    result = pipeline.ask_row(wanted.asked.row(), without=wanted.asked.without)
    reply = replies.completion(result, wanted.asked, "", "", 0)
    text = replies.with_listed_sources(reply)["choices"][0]["message"]["content"]
    record = {
        "answer": reply["choices"][0]["message"]["content"],
        "sources": reply["sources"],
        **reply["assay"],
    }
    return text, {**record, "usage": reply["usage"]}

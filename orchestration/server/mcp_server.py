"""A server of MCP tools by the official SDK: what the tools of `assay serve` and `assay mcp` share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from rag_assay.orchestration.server.chat_requests import read_form
from rag_assay.orchestration.server.failures import RequestError, request_error

if TYPE_CHECKING:
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult

Reply = tuple[str, dict[str, Any]]
"""The text of a reply, and the same as JSON."""


class ToolDefinition(NamedTuple):
    """about: what the tool does, for the model that may call it
    form: its arguments
    changes: whether it may change or spend anything
    """

    about: str
    form: type[BaseModel]
    answer: Callable[[Any], Awaitable[Reply]]
    changes: bool = False


def mcp_server(instructions: str, tools: Mapping[str, ToolDefinition]) -> Any:
    from mcp.server.lowlevel import Server

    async def list_tools(_context: object, _params: object) -> ListToolsResult:
        from mcp.types import ListToolsResult, Tool, ToolAnnotations

        return ListToolsResult(
            tools=[
                Tool(
                    name=name,
                    description=one.about,
                    input_schema=one.form.model_json_schema(),
                    annotations=ToolAnnotations(read_only_hint=not one.changes, destructive_hint=False),
                )
                for name, one in tools.items()
            ]
        )

    async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
        from mcp.types import CallToolResult, TextContent

        try:
            tool = _tool(params.name, tools)
            text, record = await tool.answer(read_form(tool.form, params.arguments or {}))
        except Exception as error:
            reason = str(request_error(error))
            return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=record)

    return Server(
        "rag-assay",
        version=version("rag-assay"),
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(name: str, tools: Mapping[str, ToolDefinition]) -> ToolDefinition:
    if name not in tools:
        raise RequestError(404, f"there is no tool {name[:100]!r}; there are {', '.join(tools)}")
    return tools[name]

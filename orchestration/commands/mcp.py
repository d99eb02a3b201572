"""`assay mcp`: tools for coding agents, over standard input and output."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option

from rag_assay.orchestration.commands.study_arguments import prepare_home, study_as_written
from rag_assay.orchestration.terminal.cli_errors import complete_study, plainly


@plainly
def mcp(
    studies: Annotated[
        list[str] | None,
        Argument(
            metavar="[STUDY]...",
            help="Study files that agents may use beside the studies of the workspace.",
            autocompletion=complete_study,
        ),
    ] = None,
    budget_usd: Annotated[float, Option(min=0, help="US dollars that all runs may cost together.")] = 0.0,
) -> None:
    """Serve MCP tools to a coding agent: plan, run, verdict, compare, question."""
    import anyio

    from rag_assay.orchestration.server.mcp_server import mcp_server
    from rag_assay.orchestration.server.study_tools import StudyTools

    named = {one.study: one.path for one in map(study_as_written, studies or ())}
    tools = StudyTools(prepare_home(), named, budget_usd)
    about = "Measured results of RAG pipelines: which chunking, embedder, retriever and model answers best."
    anyio.run(_serve, mcp_server(about, tools.definitions()))


async def _serve(server: Any) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

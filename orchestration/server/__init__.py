"""A cell behind HTTP: OpenAI's chat completions, passages as JSON, and the tools of an MCP server."""

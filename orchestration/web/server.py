"""The process that serves a page: `python -m rag_assay.orchestration.web.server SCRIPT OPTIONS ARGUMENTS…`.

It does what `streamlit run` does, and two things more: it loads the page's modules while a browser still
loads its own, and asks no other host for its address.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Thread

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rag_assay.orchestration.loopback import is_same_origin, origin_of
from rag_assay.orchestration.web.languages import PARAMETER, Language, language_of
from rag_assay.orchestration.web.page_context import PAGES


def main(arguments: Sequence[str]) -> None:
    """arguments: the page's script, Streamlit's options as a JSON object, what the script gets"""
    script, options, *own = arguments
    import streamlit as st
    from starlette.middleware import Middleware
    from streamlit import config, net_util

    sys.argv = [script, *own]  # what the script gets
    net_util.get_external_ip = lambda: None  # it would ask a host of the internet
    Thread(target=_load, daemon=True).start()
    app = st.App(
        script,
        middleware=[Middleware(OwnOrigin, lambda: config.get_option("server.corsAllowedOrigins"))],
        routes=[Route(f"/{name}", _index) for name in PAGES],
    )
    app.run(config=json.loads(options))


@cache
def _index_html(language: Language) -> str:
    """Return Streamlit's page, told where its server is: it would look for it below the page's own path."""
    from streamlit import file_util

    html = (Path(file_util.get_static_dir()) / "index.html").read_text(encoding="utf-8")
    script = '<script>window.__streamlit = { BACKEND_BASE_URL: location.origin + "/" }</script>'
    html = html.replace('<html lang="en">', f'<html lang="{language}">', 1)
    return html.replace("<head>", f"<head>{script}", 1)


def _index(request: Request) -> HTMLResponse:
    language = language_of(request.query_params.get(PARAMETER), request.headers.get("accept-language"))
    return HTMLResponse(_index_html(language), headers={"Cache-Control": "no-cache"})


class OwnOrigin:
    """ASGI middleware that refuses what scripts of other origins ask, by HTTP and by websocket.

    Streamlit itself lets in any port of this machine. Scheme, host and port are compared; requests without an
    `Origin` do not come from another page's script.

    allowed: returns further origins, as Streamlit's option `server.corsAllowedOrigins` has them
    """

    def __init__(self, app: ASGIApp, allowed: Callable[[], Sequence[str]] = tuple) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or self._is_ours(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
        else:
            text = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 403, "headers": text})
            await send(
                {"type": "http.response.body", "body": b"scripts of other web pages may not ask this server"}
            )

    def _is_ours(self, scope: Scope) -> bool:
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        (host, *_), origins = headers.get(b"host", [""]), headers.get(b"origin", [])
        allowed = {origin_of(one.strip()) for one in self._allowed()} - {None}
        return all(is_same_origin(one, scope["scheme"], host) or origin_of(one) in allowed for one in origins)


def _load() -> None:
    """Import the pages before a browser asks for them; what fails here fails there with its reason."""
    with suppress(Exception):
        app = importlib.import_module("rag_assay.orchestration.web.app")
        app.load()


if __name__ == "__main__":
    main(sys.argv[1:])

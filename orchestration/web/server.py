"""The process that serves a page: `python -m rag_assay.orchestration.web.server SCRIPT OPTIONS ARGUMENTS…`.

It does what `streamlit run` does, and three things more: it loads the page's modules while a browser still
loads its own, asks no other host for its address, and ends when the process that started it does.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread, main_thread

from starlette.types import ASGIApp, Receive, Scope, Send

from rag_assay.orchestration.loopback import is_same_origin, origin_of

_GRACE = 3.0  # seconds to end in


def main(arguments: Sequence[str]) -> None:
    """Serve a page until a signal comes, or the other end of the standard input is closed.

    arguments: the page's script, Streamlit's options as a JSON object, what the script gets
    """
    script, options, *own = arguments
    import streamlit as st
    from starlette.middleware import Middleware
    from streamlit import config, net_util

    sys.argv = [script, *own]  # what the script gets
    net_util.get_external_ip = lambda: None  # it would ask a host of the internet
    Thread(target=_end_with_parent, daemon=True).start()
    Thread(target=_load, args=(Path(script),), daemon=True).start()
    app = st.App(
        script, middleware=[Middleware(OwnOrigin, lambda: config.get_option("server.corsAllowedOrigins"))]
    )
    app.run(config=json.loads(options))


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


def _load(script: Path) -> None:
    """Import what a script imports, before anybody opens it; what fails here fails there with its reason."""
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("from rag_assay.orchestration."):
            try:
                importlib.import_module(line.split()[1])
            except Exception:
                return


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    # The main thread sleeps until something happens; a signal to it wakes it.
    signal.pthread_kill(main_thread().ident or 0, signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Starts the process that serves the app, waits until it can be opened, and ends it."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_assay.orchestration.child_module import start_module, wait_until_served
from rag_assay.orchestration.loopback import bound_socket, is_loopback, url_of
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.processes import end_process

FIRST_PORT, TRIED = 8501, 100
_SCRIPT = Path(__file__).with_name("entry") / "ui.py"
_OPTIONS = Path(__file__).with_name("streamlit.toml")
_PATIENCE = 60.0  # seconds until a server that does not answer is given up
_GRACE = 3.5  # seconds to end in, fewer than this process has after a signal
_LOOK = 0.2  # seconds between two looks at the process


def _flat(options: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in options.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


@dataclass(frozen=True)
class Site:
    """The app and where it is served; argument: of its script, `UiOptions.to_argument`."""

    argument: str
    host: str
    port: int
    environment: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"{url_of(self.host, self.port)}/"

    @property
    def options(self) -> dict[str, object]:
        where: dict[str, object] = {"server.address": self.host, "server.port": self.port}
        if is_loopback(self.host):  # or else a page of the internet could have its own name lead here
            where["server.allowedHosts"] = ["127.0.0.1", "localhost", "[::1]", "::1", self.host]
        return {**_flat(tomllib.loads(_OPTIONS.read_text("utf-8"))), **where}

    @property
    def arguments(self) -> list[str]:
        return [str(_SCRIPT), json.dumps(self.options), self.argument]


class Server(Closeable):
    """A page's process. Use it as a context manager, or close it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        module, environment = "rag_assay.orchestration.web.server", {**os.environ, **site.environment}
        output = sys.stderr.fileno()
        self._process = start_module(module, *site.arguments, output=output, environment=environment)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        wait_until_served(self._process, f"{self.site.url}_stcore/health", "the page's server", _PATIENCE)

    def wait(self) -> None:
        while (code := self._process.poll()) is None:
            time.sleep(_LOOK)  # and not in the system: a signal that another thread gets would not end that
        raise AssayError(
            f"the page's server has ended with exit code {code}; start it again; no result is lost"
        )

    def close(self) -> None:
        end_process(self._process, _GRACE)


def free_port(host: str, wanted: int | None) -> int:
    reason = ""
    for port in [wanted] if wanted else range(FIRST_PORT, FIRST_PORT + TRIED):
        try:
            bound_socket(host, port).close()
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno != errno.EADDRINUSE:
                raise InputError(
                    f"nothing can listen on {host} ({reason}); choose another with --host"
                ) from error
        else:
            return port
    which = f"port {wanted}" if wanted else f"a port from {FIRST_PORT} on"
    raise InputError(f"{which} of {host} cannot be used ({reason}); choose another with --port")

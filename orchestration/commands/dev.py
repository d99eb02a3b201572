"""`assay dev`: the Dagster UI and the app, together."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from typing import Annotated

from typer import Option

from rag_assay.orchestration.commands.study_arguments import prepare_home
from rag_assay.orchestration.terminal.cli_errors import plainly, say
from rag_assay.warehouse.errors import AssayError, InputError

PATIENCE = 180.0  # seconds until a server that does not answer is given up
GRACE = 10.0  # seconds to end in
HOST = "127.0.0.1"
# `dagster dev` advises `dg dev` at each start, which only developers have installed.
SUPERSEDED = "ignore:Function `dev_command` is superseded:FutureWarning"


@plainly
def dev(
    port: Annotated[int, Option(min=1, max=65535, help="Port of the Dagster UI.")] = 3000,
    app_port: Annotated[
        int | None, Option(min=1, max=65535, help="Port of the app. Default: the first free port from 8501.")
    ] = None,
) -> None:
    """Start the Dagster UI, with its daemon, and the app, until Ctrl-C."""
    from rag_assay.orchestration.child_module import start_module, wait_until_served
    from rag_assay.orchestration.web.page_process import free_port
    from rag_assay.warehouse.processes import end_process

    prepare_home()
    ports = (free_port(HOST, port), free_port(HOST, app_port))
    if ports[0] == ports[1]:
        raise InputError(f"the Dagster UI and the app would both use port {port}; give --app-port")
    environment = {**os.environ, "PYTHONWARNINGS": SUPERSEDED}
    dagster = ["dev", "-h", HOST, "-p", str(ports[0]), "-m", "rag_assay.orchestration.definitions"]
    app = ["ui", "--port", str(ports[1])]
    started = []
    with ExitStack() as stack:
        for module, arguments in (("dagster", dagster), ("rag_assay.orchestration.start", app)):
            process = start_module(module, *arguments, output=sys.stderr, environment=environment)
            stack.callback(end_process, process, GRACE)
            started.append(process)
        paths = ("server_info", "_stcore/health")
        for what, process, at, path in zip(("Dagster", "App"), started, ports, paths, strict=True):
            wait_until_served(process, f"http://{HOST}:{at}/{path}", what, PATIENCE)
            say(f"{what + ':':<9}http://{HOST}:{at}/")
        say("Ctrl-C ends both")
        while all(process.poll() is None for process in started):
            time.sleep(0.2)
        name = "Dagster" if started[0].poll() is not None else "the app"
        raise AssayError(f"{name} has ended; see its output above")

"""The Dagster UI of a home as `make dev` serves it: real processes on loopback, ended with the block."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rag_assay.orchestration.settings import Settings, prepare
from tests.fakes.processes import ROOT

AT_ONCE = """\
run_coordinator:
  module: dagster.core.run_coordinator
  class: DefaultRunCoordinator
"""  # the queue of runs would need the daemon
LONGEST = 120.0  # seconds until the UI answers, on a machine that does much else


@contextmanager
def dagster_ui(
    home: Path,
    *,
    daemon: bool = False,
    module: str = "rag_assay.orchestration.definitions",
    folder: Path = ROOT,
    **environment: str,
) -> Iterator[str]:
    """Serve the UI of a home; yield its address.

    What is shown are the bundled studies and those that were run in this home, as for a person.

    Args:
        home: `ASSAY_HOME`, which may be empty.
        daemon: start the daemon too: it launches queued runs, backfills, schedules and sensors.
        module, folder: of the code location, and the one that its processes run in.
        environment: more variables of all processes, such as ASSAY_STUDIES.
    """
    before = dict(os.environ)
    try:
        prepare(Settings(home=home))
        known = {**os.environ, **environment}
    finally:
        os.environ.clear()
        os.environ.update(before)
    code, port = str(_free_port()), str(_free_port())
    with ExitStack() as stack:
        log = stack.enter_context((home / "dagster-ui.log").open("w"))
        shared = ["--grpc-host", "127.0.0.1", "--grpc-port", code]
        server = ["dagster", "api", "grpc", "-h", "127.0.0.1", "-p", code]
        stack.enter_context(_process(["-m", *server, "-m", module], known, log.fileno(), folder))
        _wait_for_port(int(code))
        web = ["-m", "dagster_webserver", "-h", "127.0.0.1", "-p", port, *shared]
        stack.enter_context(_process(web, known, log.fileno(), folder))
        if daemon:
            script = str(Path(sys.executable).with_name("dagster-daemon"))
            stack.enter_context(_process([script, "run", *shared], known, log.fileno(), folder))
        address = f"http://127.0.0.1:{port}"
        _wait_until_served(address, home / "dagster-ui.log")
        yield address


@contextmanager
def _process(command: Sequence[str], environment: dict[str, str], log: int, folder: Path) -> Iterator[None]:
    """Run Python in a group of its own; its children end with it."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
                process.wait(timeout=10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _wait_for_port(port: int) -> None:
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")


def _wait_until_served(address: str, log: Path) -> None:
    query = json.dumps({"query": "{repositoriesOrError{__typename}}"}).encode()
    request = urllib.request.Request(  # noqa: S310 -- loopback
        f"{address}/graphql", query, {"Content-Type": "application/json"}
    )
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                if b"RepositoryConnection" in answer.read():
                    return
        except OSError:
            time.sleep(0.3)
    raise TimeoutError(f"the UI did not answer: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])

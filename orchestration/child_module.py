"""Runs a module as a script, until the other end of its standard input is closed.

`python -m rag_assay.orchestration.child_module MODULE ARGUMENTS…` ends with the process that started it,
however that comes about, as Ctrl-C would end it.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

from rag_assay.warehouse.errors import AssayError

_GRACE = 30.0  # seconds to end in; Dagster has processes of its own to end


def start_module(
    module: str,
    *arguments: str,
    output: int | IO[str] = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a module in a process of its own session that ends with this one; see `end_process`."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, module, *arguments],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        start_new_session=True,
    )


def wait_until_served(process: subprocess.Popen[bytes], url: str, name: str, patience: float) -> None:
    """Wait until a server of a process answers; name: of the server, for what is raised where it does not."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if (code := process.poll()) is not None:
            raise AssayError(f"{name} has ended with exit code {code}; see its output above")
        with suppress(OSError), urllib.request.urlopen(url, timeout=1):  # noqa: S310 -- our own
            return
        time.sleep(0.05)
    raise AssayError(f"{name} does not answer at {url}")


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

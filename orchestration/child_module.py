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
from collections.abc import Mapping
from typing import IO


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


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

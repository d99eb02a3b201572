"""Which run works on a workspace now."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from rag_assay.warehouse.paths import Home


@dataclass(frozen=True)
class RunNow:
    """A run, or a rebuild, that works on the home now: its process, and its command where that is known."""

    process: str
    command: str


def run_now(home: Home) -> RunNow | None:
    path = home.root / "run.lock"
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # given back at once
    except BlockingIOError:
        process = os.read(handle, 32).decode(errors="replace").strip()
        return RunNow(process, _command(process))
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(handle)
    return None


def _command(process: str) -> str:
    try:
        words = Path(f"/proc/{int(process)}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return ""
    return " ".join(Path(word.decode(errors="replace")).name for word in words if word)[:120]

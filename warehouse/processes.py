"""Whether a process that is named in a file still runs."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.locks import try_lock
from rag_assay.warehouse.paths import Home

CLASS = "ASSAY_MACHINE_CLASS"
LONGEST = 80  # characters of a class
_PROCESSORS = Path("/proc/cpuinfo")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@cache
def machine_mark() -> str:
    return sha256_text(platform.node())[:12]


def machine_class() -> str:
    """Return the class of this machine, within which seconds can be compared: `ASSAY_MACHINE_CLASS`, or the
    processor's model and how many of its cores this process may use.
    """
    named = " ".join(os.environ.get(CLASS, "").split())
    return (named or f"{_model()} x {_cores()}")[:LONGEST]


@cache
def _model() -> str:
    text = ""
    with suppress(OSError):
        text = _PROCESSORS.read_text(encoding="utf-8", errors="replace")
    found = model_of(text)
    return found or platform.processor() or platform.machine() or "unknown processor"


def model_of(text: str) -> str:
    r"""Return the model that `/proc/cpuinfo` names first; empty: it names none, as on many ARM machines.

    >>> model_of("processor\t: 0\nmodel name\t: Some(R)   CPU @ 2.50GHz\n"), model_of("processor\t: 0\n")
    ('Some(R) CPU @ 2.50GHz', '')
    """
    found = re.search(r"^model name\s*:(.*)$", text, flags=re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    there = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = ""
    with suppress(OSError):
        quota = _QUOTA.read_text(encoding="ascii")
    return cores_of(quota, there)


def cores_of(quota: str, there: int) -> int:
    """Return how many cores `cpu.max` of a control group leaves of those that are there.

    >>> cores_of("max 100000", 8), cores_of("250000 100000", 8), cores_of("", 4), cores_of("900000 100000", 4)
    (8, 3, 4, 4)
    """
    parts = quota.split()
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or int(parts[1]) == 0:
        return there
    return max(1, min(there, math.ceil(int(parts[0]) / int(parts[1]))))


ELSEWHERE = 900.0  # seconds after which a process of another machine, of which nothing is seen, has ended

_lock = threading.Lock()
_own: dict[Path, tuple[str, int]] = {}


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        return True
    return True


def this_process(home: Home) -> str:
    """Return the name of this process in a workspace; a file of that name is locked until it ends."""
    folder = _folder(home)
    with _lock:
        if folder not in _own:
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{os.getpid()}-{token_hex(4)}-{machine_mark()}"
            handle = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
            try_lock(handle)
            _own[folder] = name, handle
        return _own[folder][0]


def is_running(home: Home, name: str, at: datetime) -> bool:
    """Return whether a process still runs: its file is locked; elsewhere, within `ELSEWHERE` s."""
    folder = _folder(home)
    if folder in _own and _own[folder][0] == name:
        return True
    if not name or Path(name).name != name:
        return False
    elsewhere = name.rpartition("-")[2] != machine_mark()
    perhaps = elsewhere and (datetime.now(UTC) - at).total_seconds() < ELSEWHERE
    try:
        handle = os.open(folder / name, os.O_RDWR)
    except OSError:
        return perhaps
    try:
        locked = try_lock(handle)
        if elsewhere:
            return locked is False or perhaps
        if locked:
            with suppress(OSError):
                (folder / name).unlink()
        number = name.partition("-")[0]
        return not locked if locked is not None else number.isdecimal() and runs(int(number))
    finally:
        os.close(handle)


def _folder(home: Home) -> Path:
    return home.chats / ".processes"


LIFELINE = "ASSAY_LIFELINE"
"""Environment variable of the child: the number of its end of the pipe, which it must inherit."""


@contextmanager
def lifeline() -> Iterator[int]:
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


def end_with_parent() -> None:
    number = os.environ.pop(LIFELINE, "")
    if number.isdecimal():
        threading.Thread(target=_watch, args=(int(number),), name="lifeline", daemon=True).start()


def end_process(process: subprocess.Popen[Any], grace: float) -> None:
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _watch(end: int) -> None:
    try:
        while os.read(end, 1):
            pass
    except OSError:  # no such pipe: the variable is somebody else's, and no reason to end
        return
    os._exit(1)

"""Commands of ours as processes that tests kill, interrupt in a terminal, and look for afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.forking import ROOT, forks_of_home

PYTHONPATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
"""Where a child process finds this checkout and its tests."""


def assay_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rag_assay.orchestration.start", *arguments]


def of_home(home: Path) -> dict[int, str]:
    """Process id -> command line of what runs with this ASSAY_HOME, as Linux's /proc tells it."""
    wanted = f"ASSAY_HOME={home}".encode()
    found = forks_of_home(home)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = wanted in (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended, or is somebody else's
            continue
        if is_ours and command and int(folder.name) != os.getpid():
            found[int(folder.name)] = command
    return found


def end_all_of(home: Path) -> None:
    """Kill what runs with this ASSAY_HOME, and wait until it has ended."""

    def is_over() -> bool:
        found = of_home(home)
        for process in found:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(process, signal.SIGKILL)
        return not found

    assert wait_until(is_over), of_home(home)


def wait_until(true: Callable[[], object], seconds: float = 100) -> bool:
    """Wait until something is so, and tell whether it came to be."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if true():
            return True
        time.sleep(0.05)
    return False


def ignore_only(ignored: Collection[signal.Signals]) -> None:
    """Ignore no other signal to stop: what `nohup pytest` ignores is passed on to its children."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


@dataclass
class InTerminal:
    """A command in a terminal of its own: `type("\\x03")` is Ctrl-C, which all of its processes get."""

    process: subprocess.Popen[bytes]
    _terminal: int

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def end(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and all that it showed."""
        shown = []
        while True:
            try:
                part = os.read(self._terminal, 4096)
            except OSError:  # Linux's way to say that nobody holds the other end
                break
            if not part:
                break
            shown.append(part)
        os.close(self._terminal)
        return self.process.wait(timeout=100), b"".join(shown).decode("utf-8", "replace")


def in_terminal(command: list[str], errors: int | None = None, **environment: str) -> InTerminal:
    """Start a command in a terminal; its standard error may be another descriptor."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs if errors is None else errors,
        start_new_session=True,
        preexec_fn=of_its_own_terminal,  # noqa: PLW1509 -- one call of the system, and no lock
    )
    os.close(theirs)
    return InTerminal(process, ours)


def of_its_own_terminal() -> None:
    """Let standard input be the terminal of this session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)

"""Redis and PostgreSQL on loopback, each in a folder of its own, which can be stopped and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.processes import wait_until

POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
SECONDS = 30.0  # that a server may take to start


@dataclass
class Server:
    """A server that was started here.

    url: what its clients are told
    command: starts it; it listens on ``port``
    user: whose it is; None: of whoever runs this
    """

    url: str
    port: int
    command: Sequence[str]
    folder: Path
    user: str | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it, and wait until it listens.

        Raises:
            RuntimeError: it does not.
        """
        log = self.folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                self.command, stdout=out, stderr=out, cwd=self.folder, user=self.user
            )
        if not wait_until(lambda: _listens(self.port) or not self.runs, SECONDS) or not self.runs:
            raise RuntimeError(f"{self.command[0]} did not start: {log.read_text(errors='replace')[-2000:]}")

    @property
    def runs(self) -> bool:
        """Return whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def end(self) -> None:
        """Let it end in good order, so that it leaves nothing behind."""
        if self._process is not None and self.runs:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self.stop()

    def stop(self) -> None:
        """Kill it, as a machine that loses power does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def lacking() -> str | None:
    """Say which server is not installed; None: all are."""
    if shutil.which("redis-server") is None:
        return "redis-server is not installed (Debian: redis-server)"
    if not POSTGRES:
        return "PostgreSQL is not installed (Debian: postgresql)"
    return None


@contextmanager
def redis_server() -> Iterator[Server]:
    """Run Redis for as long as the block takes; it notes each write: none is lost with its process."""
    with _folder(None) as folder:
        port = free_port()
        options = {
            "port": port,
            "bind": "127.0.0.1",
            "dir": folder,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        command = [
            "redis-server",
            *(word for name, value in options.items() for word in (f"--{name}", str(value))),
        ]
        with _running(Server(f"redis://127.0.0.1:{port}/0", port, command, folder)) as server:
            yield server


@contextmanager
def postgres_server() -> Iterator[Server]:
    """Run PostgreSQL for as long as the block takes, with an empty database `dagster`."""
    user = "postgres" if os.getuid() == 0 else None
    with _folder(user) as folder:
        port = free_port()
        data = folder / "data"
        tools = POSTGRES[-1]
        setup = [tools / "initdb", "-D", data, "-U", "assay", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        subprocess.run(setup, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)
        command = [
            str(tools / "postgres"),
            "-D",
            str(data),
            "-p",
            str(port),
            "-h",
            "127.0.0.1",
            "-k",
            str(folder),
        ]
        url = f"postgresql+psycopg2://assay@127.0.0.1:{port}/dagster"
        with _running(Server(url, port, command, folder, user)) as server:
            make = [tools / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "assay", "dagster"]
            assert wait_until(lambda: not subprocess.run(make, capture_output=True, check=False).returncode)
            yield server


@contextmanager
def _running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.end()


@contextmanager
def _folder(user: str | None) -> Iterator[Path]:
    """Make a folder that a user can reach: those of pytest are for their maker alone."""
    folder = Path(tempfile.mkdtemp(prefix="assay-cluster-", dir="/tmp"))
    try:
        if user:
            shutil.chown(folder, user)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False

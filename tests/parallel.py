"""Run tests in several processes: `pytest -p tests.parallel --jobs 3`.

One process collects and imports all modules, then it forks the workers. With pytest-xdist, each worker would
import torch, Dagster and 1,200 modules again, and hold them in memory of its own.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from _pytest.config import create_terminal_writer

from tests.fakes import forking

NUMBER = 4  # bytes of a group's number in the queue
MEMORY = 2_000_000_000  # bytes that one worker and what it starts may need
SHARED = ("shipped_once",)
"""Fixtures that are made once in a session and take long: one worker makes them."""
UNFORKABLE = ("lancedb", "twisted.internet.reactor")
"""Modules whose threads and descriptors belong to one process."""
THREADS = {"python", "python3", "pytest", "jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads that may run before the fork: forks do not need them."""


@dataclass
class Worker:
    """A process that runs tests.

    at: the group and the item in it that it runs
    """

    name: str
    process: int
    line: Connection
    at: tuple[int, int] | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "Run tests in N processes. auto: two more than cores if memory allows. Default: 1."
    parser.addoption("--jobs", type=_jobs, default=1, metavar="N", help=text)


def _jobs(text: str) -> int:
    """Return a number of processes. Tests mostly wait for servers and processes: more than cores."""
    if text != "auto":
        return int(text)
    cores = os.cpu_count() or 1
    try:
        found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return max(1, min(cores + 2, int(found[1]) * 1000 // MEMORY)) if found else cores


def groups_of(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Return what one worker runs: the tests of a file, or of all files that use a fixture of `SHARED`."""
    shared = {
        item.path: name for item in items for name in SHARED if name in getattr(item, "fixturenames", ())
    }
    found: dict[Path | str, list[pytest.Item]] = {}
    for item in items:
        found.setdefault(shared.get(item.path, item.path), []).append(item)
    return list(found.values())


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Give each worker one file after the other; return None where one process is enough."""
    config = session.config
    if config.option.jobs < 2 or config.option.collectonly or session.testsfailed:
        return None
    threads = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
    if found := [*(name for name in UNFORKABLE if name in sys.modules), *sorted(threads - THREADS)]:
        raise pytest.UsageError(f"to be used in functions, not when a module is imported: {', '.join(found)}")
    _Pool(session).run()
    return True


class _Pool:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._groups = groups_of(session.items)
        self._queue, filled = os.pipe()  # a read of one number is atomic: no lock is needed
        os.write(filled, b"".join(n.to_bytes(NUMBER, "big") for n in range(len(self._groups))))
        os.close(filled)
        self._workers: dict[Connection, Worker] = {}

    def run(self) -> None:
        session = self._session
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        forking.server()  # one for all
        for n in range(min(session.config.option.jobs, len(self._groups))):
            self._start(f"worker{n}", [])
        try:
            while self._workers:
                for line in wait(list(self._workers)):
                    self._read(self._workers[cast("Connection", line)])
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            for worker in self._workers.values():
                os.kill(worker.process, signal.SIGINT)
            for worker in self._workers.values():
                worker.line.close()
                os.waitpid(worker.process, 0)

    def _start(self, name: str, rest: list[tuple[int, int]]) -> None:
        reading, writing = Pipe(duplex=False)
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            reading.close()
            for other in self._workers:
                other.close()
            _Work(self._session, self._groups, self._queue, writing).run(name, rest)
        writing.close()
        self._workers[reading] = Worker(name, process, reading)

    def _read(self, worker: Worker) -> None:
        hook = self._session.config.hook
        try:
            kind, told = worker.line.recv()
        except EOFError:
            self._end(worker)
            return
        if kind == "at":
            worker.at = told
        elif kind == "report":
            report = hook.pytest_report_from_serializable(config=self._session.config, data=told)
            hook.pytest_runtest_logreport(report=report)
        elif kind == "finish":
            hook.pytest_runtest_logfinish(nodeid=told[0], location=told[1])
        elif kind == "warning":
            text, nodeid, when, location = told
            message = warnings.WarningMessage(UserWarning(text), UserWarning, *location)
            hook.pytest_warning_recorded.call_historic(
                kwargs={"warning_message": message, "nodeid": nodeid, "when": when, "location": None}
            )
        else:
            self._fail(worker.name, ("", None, worker.name), told)

    def _end(self, worker: Worker) -> None:
        """Report the test in which a worker died; let another one go on after it."""
        del self._workers[worker.line]
        worker.line.close()
        code = os.waitstatus_to_exitcode(os.waitpid(worker.process, 0)[1])
        if code == 0:
            return
        if worker.at is None:
            raise RuntimeError(f"{worker.name} ended with exit code {code} before its first test")
        group, at = worker.at
        item = self._groups[group][at]
        self._fail(item.nodeid, item.location, f"The process ended with exit code {code} in this test.")
        self._start(worker.name, [(group, n) for n in range(at + 1, len(self._groups[group]))])

    def _fail(self, nodeid: str, location: tuple[str, int | None, str], text: str) -> None:
        report = pytest.TestReport(nodeid, location, {}, "failed", text, "call")
        self._session.config.hook.pytest_runtest_logreport(report=report)


class _Work:
    """What a worker does. It is a plugin that sends each report to the first process."""

    def __init__(
        self, session: pytest.Session, groups: list[list[pytest.Item]], queue: int, line: Connection
    ) -> None:
        self._session, self._groups, self._queue, self._line = session, groups, queue, line

    def run(self, name: str, rest: list[tuple[int, int]]) -> NoReturn:
        code = 1
        try:
            self._prepare(name)
            self._run_all(rest)
            code = 0
        except KeyboardInterrupt:
            code = 130  # of a test that let it out; where the first process sends it, no one reads this
        except BaseException:
            self._line.send(("error", traceback.format_exc()))
        finally:
            threading._shutdown()  # type: ignore[attr-defined]  # as an interpreter ends
            atexit._run_exitfuncs()
            self._line.close()
            os._exit(code)

    def _prepare(self, name: str) -> None:
        config = self._session.config
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files are shared with the other workers
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=False)
        config.pluginmanager.unregister(name="terminalreporter")
        # What plugins print in a test is captured as its stderr.
        muted = SimpleNamespace(_tw=create_terminal_writer(config, sys.__stderr__), stats={})
        config.pluginmanager.register(muted, "terminalreporter")
        config.pluginmanager.register(self, "parallel-worker")
        factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / name
        factory._basetemp.mkdir(exist_ok=True)

    def _run_all(self, rest: list[tuple[int, int]]) -> None:
        session = self._session
        try:
            while True:
                for group, at in rest:
                    self._line.send(("at", (group, at)))
                    items = self._groups[group]
                    item = items[at]
                    # The session as the next item: its fixtures stay, those of the file end.
                    following = items[at + 1] if at + 1 < len(items) else session
                    session.config.hook.pytest_runtest_protocol(item=item, nextitem=cast("Any", following))
                number = os.read(self._queue, NUMBER)
                if not number:
                    return
                group = int.from_bytes(number, "big")
                rest = [(group, n) for n in range(len(self._groups[group]))]
        finally:
            session._setupstate.teardown_exact(None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self._session.config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self._line.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._line.send(("finish", (nodeid, location)))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, nodeid: str, when: str
    ) -> None:
        if when != "runtest":  # of the collection: already reported
            return
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        place = (warning_message.filename, warning_message.lineno)
        self._line.send(("warning", (text, nodeid, when, place)))

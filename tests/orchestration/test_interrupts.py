"""Interruptions are noted even where Python drops them, and nothing of them is printed."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from rag_assay.orchestration import start
from rag_assay.orchestration.interrupts import watch_interrupts

REPOSITORY = Path(__file__).parents[2]


class RaisesWhenGone:
    """Its finalizer raises: Python prints what is raised there, and drops it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_swallowed_signal_is_noted(number: signal.Signals) -> None:
    signal.signal(number, lambda *_: None)
    with watch_interrupts() as interrupted:
        assert not interrupted()
        signal.raise_signal(number)
        assert interrupted()
        assert interrupted(), "it stays so"
    with watch_interrupts() as interrupted:
        assert not interrupted(), "one walk's interruption is not the next one's"


def test_other_signals_do_not_stop() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with watch_interrupts() as interrupted:
            signal.raise_signal(signal.SIGUSR1)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(("error", "printed"), [(KeyboardInterrupt(), False), (ValueError("odd"), True)])
def test_finalizer(
    error: BaseException, printed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    with watch_interrupts():
        gone = RaisesWhenGone(error)
        del gone
    assert ("Traceback" in capsys.readouterr().err) is printed


def test_pool_that_closes_logs_no_stack_and_speaks_again_after() -> None:
    pool = logging.getLogger("sqlalchemy.pool.impl.NullPool")
    with watch_interrupts():
        assert not pool.isEnabledFor(logging.ERROR)
    assert pool.isEnabledFor(logging.ERROR)


def test_other_threads_hear_nothing_and_break_nothing() -> None:
    heard: list[bool] = []

    def walk() -> None:
        with watch_interrupts() as interrupted:
            heard.append(interrupted())

    thread = threading.Thread(target=walk)
    thread.start()
    thread.join()
    assert heard == [False]


def test_ctrl_c_while_the_command_line_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "rag_assay.orchestration.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "rag_assay.orchestration.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "stopped before the run began.\n"


WAITS = """
import os, sys, time
from rag_assay.orchestration import start

class Waits:
    def find_spec(self, name, *_):
        if name == "rag_assay.orchestration.cli":
            if {forks}:
                ready, begun = os.pipe()  # Python drops a signal that comes while it is forking
                child = os.fork()
                if child == 0:
                    os.write(begun, b"x")
                    time.sleep(60)
                    os._exit(1)
                os.read(ready, 1)
                os.kill(child, 15)
                os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + 100)
            print("here", flush=True)
            time.sleep(60)

sys.meta_path.insert(0, Waits())
start.main()
"""


def test_sigterm_while_the_command_line_is_imported_is_a_sentence() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS.format(forks=False)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "stopped before the run began.\n")


def test_sigterm_ends_a_forked_process_as_if_nobody_handled_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITS.format(forks=True)], cwd=REPOSITORY, check=False, timeout=60
    )
    assert done.returncode - 100 == -signal.SIGTERM


def test_sigterm_is_handled_as_before_where_the_command_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_assay.orchestration import cli

    before = signal.getsignal(signal.SIGTERM)
    during: list[object] = []
    monkeypatch.setattr(cli, "main", lambda: during.append(signal.getsignal(signal.SIGTERM)))
    start.main()
    assert signal.getsignal(signal.SIGTERM) is before
    assert during != [before]


def test_the_command_starts_there() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, _, name = project["project"]["scripts"]["assay"].partition(":")
    assert getattr(import_module(module), name) is start.main

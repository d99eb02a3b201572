"""Interruptions are noted even where Python drops them, and nothing of them is printed."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from orchestration import start
from orchestration.interrupts import noted_interrupts


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
    with noted_interrupts() as interrupted:
        assert not interrupted()
        signal.raise_signal(number)
        assert interrupted()
        assert interrupted(), "it stays so"
    with noted_interrupts() as interrupted:
        assert not interrupted(), "one walk's interruption is not the next one's"


def test_other_signals_do_not_stop() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with noted_interrupts() as interrupted:
            signal.raise_signal(signal.SIGUSR1)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(("error", "printed"), [(KeyboardInterrupt(), False), (ValueError("odd"), True)])
def test_finalizer(
    error: BaseException, printed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    with noted_interrupts():
        gone = RaisesWhenGone(error)
        del gone
    assert ("Traceback" in capsys.readouterr().err) is printed


def test_pool_that_closes_logs_no_stack_and_speaks_again_after() -> None:
    pool = logging.getLogger("sqlalchemy.pool.impl.NullPool")
    with noted_interrupts():
        assert not pool.isEnabledFor(logging.ERROR)
    assert pool.isEnabledFor(logging.ERROR)


def test_other_threads_hear_nothing_and_break_nothing() -> None:
    heard: list[bool] = []

    def walk() -> None:
        with noted_interrupts() as interrupted:
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
            if name == "orchestration.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "orchestration.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "stopped. Nothing was begun.\n"


def test_the_command_starts_there() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, _, name = project["project"]["scripts"]["assay"].partition(":")
    assert getattr(import_module(module), name) is start.main

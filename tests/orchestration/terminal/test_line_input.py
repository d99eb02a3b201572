"""The history of typed lines: bounded, its owner's, and of several terminals at once."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from rag_assay.orchestration.terminal.line_input import LONGEST, MOST, Lines


class Typed(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def typed(lines: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a person sit there and type lines, and then Ctrl-D."""
    said = iter(lines)

    def answer(_prompt: str) -> str:
        try:
            return next(said)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(sys, "stdin", Typed())
    monkeypatch.setattr(sys, "stdout", Typed())
    monkeypatch.setattr("builtins.input", answer)


def test_a_history_is_bounded_and_shared_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "corpora" / "history"
    many = [f"question {n}" for n in range(MOST + 5)]
    typed([*many, "twice", "twice", "  ", "x" * (LONGEST + 1)], monkeypatch)
    one = Lines(path)
    other = Lines(path)
    assert len(list(one.read(lambda: "> "))) == MOST + 9
    one.keep()
    typed(["another terminal"], monkeypatch)
    assert list(other.read(lambda: "> ")) == ["another terminal"]
    other.keep()
    kept = path.read_text().splitlines()
    assert kept[-3:] == [f"question {MOST + 4}", "twice", "another terminal"]
    assert len(kept) == MOST
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    import readline

    Lines(path)
    assert readline.get_history_item(readline.get_current_history_length()) == "another terminal"


def test_nothing_is_kept_by_choice_and_a_full_disk_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for history in (None, tmp_path / "file" / "history"):
        typed(["a"], monkeypatch)
        lines = Lines(history)
        assert next(lines.read(lambda: "> ")) == "a"
        lines.keep()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_pipe_gives_its_lines_and_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\r\n\ntwo"))
    lines = Lines(tmp_path / "history")
    assert list(lines.read(lambda: "> ")) == ["one", "", "two"]
    lines.keep()
    assert not list(tmp_path.iterdir())

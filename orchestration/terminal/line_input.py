"""Lines that a person types at a prompt, with arrow keys and a bounded history where there is readline."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM
from typing import Any

from rag_assay.orchestration.shutdown import was_stopped
from rag_assay.orchestration.terminal.cli_errors import say
from rag_assay.warehouse.atomic_write import atomic_write

MOST = 1_000  # lines of the history that are kept
LONGEST = 2_000  # characters of a line that is kept


class Lines:
    """What is typed, line by line, until Ctrl-D; of a pipe, its lines. history: None: lines are not kept."""

    def __init__(self, history: Path | None) -> None:
        self.is_typed = sys.stdin.isatty() and sys.stdout.isatty()
        self._history = history
        self._readline = _readline() if self.is_typed else None
        self._new: list[str] = []
        if self._readline is not None:
            self._readline.set_auto_history(False)
            self._readline.clear_history()
            for line in _kept(history):
                self._readline.add_history(line)

    def read(self, prompt: Callable[[], str]) -> Iterator[str]:
        """Yield the lines; Ctrl-C drops the one that is being typed, Ctrl-D ends them."""
        while True:
            try:
                line = input(prompt()) if self.is_typed else _piped()
            except EOFError:
                if self.is_typed:
                    sys.stdout.write("\n")
                return
            except KeyboardInterrupt:
                if not self.is_typed or was_stopped(SIGTERM):
                    raise
                sys.stdout.write("\n")
                continue
            except UnicodeDecodeError:
                say("That was not UTF-8 text.")
                continue
            self._remember(line)
            yield line

    def _remember(self, line: str) -> None:
        words = line.strip()
        if words and len(words) <= LONGEST and (not self._new or self._new[-1] != words):
            self._new.append(words)
            if self._readline is not None:
                self._readline.add_history(words)

    def keep(self) -> None:
        if self._history is None or not self.is_typed or not self._new:
            return
        with suppress(OSError), atomic_write(self._history) as temporary:  # a full disk costs no answer
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.writelines(f"{line}\n" for line in [*_kept(self._history), *self._new][-MOST:])
        self._new.clear()


def _readline() -> Any:
    try:
        import readline
    except ImportError:
        return None
    return readline


def _kept(history: Path | None) -> list[str]:
    try:
        text = history.read_text("utf-8", "replace") if history else ""
    except OSError:
        return []
    return [line[:LONGEST] for line in text.split("\n") if line.strip()][-MOST:]


def _piped() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")

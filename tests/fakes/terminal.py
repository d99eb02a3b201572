"""A command in a terminal of its own: what is typed into it, and what it writes."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

from tests.fakes.processes import ROOT, of_its_own_terminal

_PIECE = re.compile(r"\x1b\[([0-9;?]*)([a-zA-Z])|[\r\n]|[^\x1b\r\n]+|.")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;?]*)?$")
_COLOURS = re.compile(r"\x1b(?:\[[0-9;?]*)?(?:[a-zA-Z]|$)|\r$")


class Terminal:
    """A process whose input and output are a terminal. Use it as a context manager.

    errors: a descriptor that is its standard error instead
    written: all that it has written, with the sequences that colour it
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        columns: int = 80,
        rows: int = 40,
        errors: int | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        sized = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs if errors is None else errors,
            cwd=ROOT,
            env={**sized, "TERM": "xterm", **environment},
            start_new_session=True,
            preexec_fn=of_its_own_terminal,  # noqa: PLW1509 -- one call of the system, and no lock
        )
        os.close(theirs)
        self.written = ""
        self._heard = 0  # characters without colours that were returned
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a letter may come in parts

    def until(self, words: str, seconds: float = 120) -> str:
        """Read until words are written; return what came up to them since the last call, without colours."""
        deadline = time.monotonic() + seconds
        while (found := self.plain(self.written).find(words, self._heard)) < 0:
            if not self.read(deadline - time.monotonic()):
                raise AssertionError(f"{words!r} was not written: {self.written[-3000:]!r}")
        begin, self._heard = self._heard, found + len(words)
        return self.plain(self.written)[begin : self._heard]

    def type(self, keys: str) -> None:
        """Type keys, as a person would."""
        os.write(self._ours, keys.encode())

    def ended(self, seconds: float = 60) -> int:
        """Read to the end; return the exit code."""
        deadline = time.monotonic() + seconds
        while self.read(deadline - time.monotonic()):
            pass
        return self.process.wait(max(1.0, deadline - time.monotonic()))

    def read(self, seconds: float) -> bool:
        """Read what is written within so many seconds; return whether there was something."""
        if seconds <= 0 or not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            part = os.read(self._ours, 65536)
        except OSError:  # the other side is closed
            return False
        self.written += self._decoder.decode(part)
        return bool(part)

    @staticmethod
    def plain(written: str) -> str:
        """Return what was written, without the sequences that colour it."""
        return _COLOURS.sub("", written).replace("\r\n", "\n")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._ours)


class Screen:
    """What a person sees of what was written: all lines, with those that have scrolled away.

    lines: without spaces at their ends
    wrapped: lines that were longer than the screen is wide, and went on in the next one
    """

    def __init__(self, written: str = "", columns: int = 100, rows: int = 30) -> None:
        self._columns, self._rows = columns, rows
        self._row = self._column = 0
        self._cells: list[list[str]] = [[]]
        self._rest = ""  # the beginning of a sequence
        self.wrapped: list[str] = []
        self.write(written)

    def write(self, written: str) -> None:
        """Show what is written next."""
        whole = self._rest + written
        begun = _BEGUN.search(whole)
        self._rest = begun[0] if begun else ""
        for found in _PIECE.finditer(whole.removesuffix(self._rest)):
            if found[2]:
                self._control(found[1], found[2])
            elif found[0] == "\r":
                self._column = 0
            elif found[0] == "\n":
                self._down()
            else:
                for letter in found[0]:
                    self._put(letter)

    @property
    def lines(self) -> list[str]:
        return ["".join(cells).rstrip() for cells in self._cells]

    @property
    def last(self) -> list[str]:
        """The lines that are on the screen in the end."""
        return self.lines[-self._rows :]

    def _put(self, letter: str) -> None:
        if self._column >= self._columns:
            self.wrapped.append("".join(self._cells[self._row]))
            self._column = 0
            self._down()
        cells = self._cells[self._row]
        cells.extend(" " * (self._column + 1 - len(cells)))
        cells[self._column] = letter
        self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._cells):
            self._cells.append([])

    def _control(self, parameters: str, kind: str) -> None:
        if kind == "A":
            top = max(0, len(self._cells) - self._rows)
            self._row = max(top, self._row - int(parameters or 1))
        elif kind == "K" and parameters == "2":
            self._cells[self._row].clear()
        elif kind not in "mhlK":  # colours, and whether the cursor is seen
            raise AssertionError(f"a sequence that is not known here: {parameters}{kind}")

"""Progress on the terminal: a bar for whatever takes longer than two seconds."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

PATIENCE = 2.0  # seconds that a piece of work may take before its bar appears


class _Rate(ProgressColumn):
    """How many a second, once that is known."""

    def render(self, task: Task) -> Text:
        """Write the rate of the last seconds."""
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="progress.data.speed")


class Bars:
    """Shows (label, done, of) as bars on stderr; where that is no terminal, a line now and then.

    Use as a context manager; pass `tell` as the progress of a `Driver`.
    """

    def __init__(self) -> None:
        # A Dagster run redirects stdout and stderr into its logs; this copy still leads to the terminal.
        self._stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="replace")
        self.console = Console(file=self._stream, force_terminal=self._stream.isatty() or None)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self._begun: dict[str, float] = {}
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, float] = {}

    def tell(self, label: str, done: int, of: int) -> None:
        """Hear how far a piece of work is; ``of`` 0 means a sentence to be shown once."""
        now = time.monotonic()
        if of == 0:
            self.console.print(Text(label, style="dim"))
            return
        begun = self._begun.setdefault(label, now)
        if done >= of:
            self._end(label)
        elif now - begun >= PATIENCE:
            self._show(label, done, of, now)

    def _show(self, label: str, done: int, of: int, now: float) -> None:
        if not self.console.is_terminal:
            if now - self._said.get(label, 0.0) >= 15.0:
                self._said[label] = now
                print(f"  {label}: {done} of {of}", file=self._stream, flush=True)
            return
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(label, total=of)
        self._progress.update(self._tasks[label], completed=done, total=of)

    def _end(self, label: str) -> None:
        self._begun.pop(label, None)
        task = self._tasks.pop(label, None)
        if task is not None:
            self._progress.remove_task(task)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        self._stream.close()

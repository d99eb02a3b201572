"""Progress on the terminal: the stage of the moment, what takes longer than two seconds, what is finished."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Group
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
from rich.table import Column
from rich.text import Text

from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.run_report import StageReport
from rag_assay.orchestration.terminal.cli_errors import console, text
from rag_assay.orchestration.terminal.tables import stage_lines

PATIENCE = 2.0  # seconds that a piece of work may take before its bar appears
SELDOM = 15.0  # seconds between two lines on the same work where there is no terminal


class _Rate(ProgressColumn):
    """How many a second, once that is known."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="progress.data.speed")


class Bars:
    """Shows a run on stderr: bars for what is under way, lines that stay for the stages that are finished.

    Where stderr is no terminal, a line now and then stands for the bars. Use as a context manager; pass
    `tell` as the progress of a `Driver`, and the object itself as its watch.
    """

    def __init__(self) -> None:
        # A Dagster run redirects stdout and stderr into its logs; this copy still leads to the terminal.
        self._stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="replace")
        self.console = console(self._stream, force_terminal=self._stream.isatty() or None)
        label = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=label),
            BarColumn(bar_width=30 if self.console.width >= 100 else 12),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            expand=True,
        )
        self._begun: dict[str, float] = {}
        self._tasks: dict[str, TaskID] = {}
        self._last_line_at: dict[str, float] = {}
        self._sentences: Counter[str] = Counter()
        self._stage = ""
        self._place = ""  # `stage 4 of 10`

    def begin(self, stage: str, number: int, of: int) -> None:
        """Hear that a stage begins, the ``number``-th ``of`` so many."""
        self._stage, self._place = stage, f"stage {number:>{len(str(of))}} of {of}"
        if self.console.is_terminal:
            self._tasks[stage] = self._progress.add_task(f"{self._place}: {stage}", total=None)

    def end(self, report: StageReport) -> None:
        """Receive what came of the stage that began last: it is written down for good."""
        for label in list(self._tasks):
            self._end(label)
        self._print(*stage_lines(report, self._place))

    def tell(self, label: str, done: int, of: int) -> None:
        """Hear how far a piece of work is; ``of`` 0 means a sentence, which is shown once."""
        now = time.monotonic()
        if of == 0:
            self._sentences[label] += 1
            if self._sentences[label] == 1:
                self._print(text(label, "dim"))
            return
        begun = self._begun.setdefault(label, now)
        if done >= of and label != self._stage:
            self._end(label)
        elif label == self._stage or now - begun >= PATIENCE:
            self._show(label, done, of, now)

    def _show(self, label: str, done: int, of: int, now: float) -> None:
        shown = plain(f"{self._place}: {label}" if label == self._stage and self._place else label)
        if not self.console.is_terminal:
            if now - self._last_line_at.setdefault(label, self._begun[label]) >= SELDOM:
                self._last_line_at[label] = now
                self._print(text(f"  {shown}: {done} of {of}"))
            return
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(shown, total=of)
        self._progress.update(self._tasks[label], completed=done, total=of)

    def _end(self, label: str) -> None:
        self._begun.pop(label, None)
        task = self._tasks.pop(label, None)
        if task is not None:
            self._progress.remove_task(task)

    def _print(self, *lines: Text) -> None:
        if lines:  # together: a log that is read meanwhile has all of a stage or nothing
            self.console.print(Group(*lines), soft_wrap=not self.console.is_terminal)

    def __enter__(self) -> Self:
        if self.console.is_terminal:  # elsewhere it would end with an empty line
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._progress.stop()
        again = {sentence: n for sentence, n in self._sentences.items() if n > 1}
        self._print(*(text(f"said {n:,} times: {sentence}", "dim") for sentence, n in again.items()))
        self._stream.close()

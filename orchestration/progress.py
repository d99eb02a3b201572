"""Progress of a run: on a terminal what is under way and what failed, elsewhere a few lines."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
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
from rich.spinner import Spinner
from rich.table import Column
from rich.text import Text

from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.run_report import StageReport
from rag_assay.orchestration.terminal.cli_errors import console, text
from rag_assay.orchestration.terminal.tables import stage_lines
from rag_assay.warehouse.closing import Closeable

PATIENCE = 2.0  # seconds that a piece of work may take before its bar appears
SELDOM = 15.0  # seconds between two lines on the same work where there is no terminal


class _Rate(ProgressColumn):
    """How many a second, once that is known."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="progress.data.speed")


class Bars(Closeable):
    """Shows how far a run is. Use it as a context manager; pass `tell` as the progress of a `Driver`, and the
    object itself as its watch.

    On a terminal, bars stand for what is under way and are erased in the end. Only the failures of a stage
    stay, and the sentences of a run in which something failed. The terminal is that of stderr, else that of
    stdout, so that a stderr that is a file holds failures alone. Where neither is a terminal, each finished
    stage is a line on stderr, and a line now and then stands for the bars.
    """

    def __init__(self) -> None:
        # A Dagster run redirects stdout and stderr into its logs; these copies still lead to the terminal.
        shown = sys.stdout if sys.stdout.isatty() and not sys.stderr.isatty() else sys.stderr
        self._streams = [
            os.fdopen(os.dup(one.fileno()), "w", encoding="utf-8", errors="replace")
            for one in (shown, sys.stderr)
        ]
        self.console, self._stays = (
            console(one, force_terminal=one.isatty() or None) for one in self._streams
        )
        if self._stays.is_terminal:  # of which one console keeps what stays above the bars
            self._stays = self.console
        self._live: Live | None = None
        self._between = Spinner("dots", text("checking what is out of date"))  # between two stages
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
            expand=True,
        )
        self._begun: dict[str, float] = {}
        self._tasks: dict[str, TaskID] = {}
        self._last_line_at: dict[str, float] = {}
        self._sentences: Counter[str] = Counter()
        self._failed = False
        self._left_out: list[str] = []  # stages
        self._stage = ""
        self._place = ""  # `stage 4 of 10`

    @property
    def is_live(self) -> bool:
        return self.console.is_terminal

    def above(self) -> RenderableType | None:
        return None

    def _shown(self) -> RenderableType:
        sentence = next(reversed(self._sentences), "")
        now = self._progress if self._tasks else self._between
        lines = [self.above(), text(sentence, "dim") if sentence else None, now]
        return Group(*(one for one in lines if one is not None))

    def begin(self, stage: str, number: int, of: int) -> None:
        self._stage, self._place = stage, f"stage {number:>{len(str(of))}} of {of}"
        if self.is_live:
            self._tasks[stage] = self._progress.add_task(f"{self._place}: {stage}", total=None)

    def end(self, report: StageReport) -> None:
        for label in list(self._tasks):
            self._end(label)
        self._keep(report, *stage_lines(report, self._place))

    def _keep(self, report: StageReport, *lines: Text) -> None:
        self._failed = self._failed or bool(report.failed)
        if report.left_out and not report.failed:
            self._left_out.append(report.stage)
        if report.failed or not self.is_live:
            self._print(*lines)

    def tell(self, label: str, done: int, of: int) -> None:
        """Hear how far a piece of work is; ``of`` 0 means a sentence, which is shown once."""
        now = time.monotonic()
        if of == 0:
            self._sentences[label] += 1
            if self._sentences[label] == 1 and not self.is_live:
                self._print(text(label, "dim"))
            return
        begun = self._begun.setdefault(label, now)
        if done >= of and label != self._stage:
            self._end(label)
        elif label == self._stage or now - begun >= PATIENCE:
            self._show(label, done, of, now)

    def _show(self, label: str, done: int, of: int, now: float) -> None:
        shown = plain(f"{self._place}: {label}" if label == self._stage and self._place else label)
        if not self.is_live:
            if done and now - self._last_line_at.setdefault(label, self._begun[label]) >= SELDOM:
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
            self._stays.print(Group(*lines), soft_wrap=not self._stays.is_terminal)

    def __enter__(self) -> Self:
        if self.is_live:
            self._live = Live(
                get_renderable=self._shown, console=self.console, transient=True, refresh_per_second=8
            )
            self._live.start()
        return self

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            if self._failed:
                self._print(*(text(sentence, "dim") for sentence in self._sentences))
            if self._left_out:
                self._print(
                    text(f"Left out because of that, all or in part: {', '.join(self._left_out)}.", "red")
                )
        if self._failed or not self.is_live:
            again = {sentence: n for sentence, n in self._sentences.items() if n > 1}
            self._print(*(text(f"said {n:,} times: {sentence}", "dim") for sentence, n in again.items()))
        for stream in self._streams:
            stream.close()

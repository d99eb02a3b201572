"""What `assay try` shows while it runs: the pipelines that are measured so far, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from rag_assay.evals.reporting.display import MISSING, several
from rag_assay.evals.study.cells import UNREAD
from rag_assay.evals.study.study import Study
from rag_assay.orchestration.progress import Bars
from rag_assay.orchestration.run_report import StageReport
from rag_assay.orchestration.terminal.cli_errors import console, text, width
from rag_assay.orchestration.terminal.tables import stage_lines
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home

COLUMNS = 3  # metrics
SYSTEM = "your application"


class PipelineMeans(NamedTuple):
    """A pipeline, and the means of the metrics that it has so far."""

    chunking: str
    retriever: str
    means: dict[str, float]

    @property
    def label(self) -> str:
        return SYSTEM if self.chunking == UNREAD else f"{self.chunking} · {self.retriever}"


def means_of(study: Study, home: Home) -> dict[tuple[str, str], PipelineMeans]:
    """Return the pipelines of a study that have scores; those with answers have more metrics."""
    store = ArtifactStore(home)
    found: dict[tuple[str, str], PipelineMeans] = {}
    for cell in study.cells():
        artifact = store.current("scores", cell.key)
        if artifact is not None:
            path = store.folder("scores", artifact.identity) / "scores.parquet"
            rows = read_parquet(path, ["metric", "value"]).drop_nulls("value")
            place = (cell.chunking, cell.retriever)
            one = found.setdefault(place, PipelineMeans(*place, {}))
            one.means.update(rows.group_by("metric").agg(pl.col("value").mean()).rows())
    return found


class TrialScreen(Bars):
    """Bars below a table of the pipelines that are measured so far; without a terminal, lines."""

    def __init__(self, estimate: str) -> None:
        super().__init__()
        self._estimate = estimate
        self._metrics: list[tuple[str, str]] = []  # name and heading
        self.pipelines: list[PipelineMeans] = []
        self._waiting: list[str] = []
        self._followed: tuple[Study, Sequence[Study], Home] | None = None
        if not self.is_live:
            self._print(text(estimate))

    def begin(self, stage: str, number: int, of: int) -> None:
        """Hear that a stage begins; a trial runs some of them several times, so that they have no number."""
        super().begin(stage, number, of)
        self._place = ""

    def end(self, report: StageReport) -> None:
        if report.stage == "scores":
            self._look()
        for label in list(self._tasks):
            self._end(label)
        slow = not self.is_live and report.built and report.seconds >= 5
        if report.failed or slow:
            self._keep(report, *stage_lines(report, " "))

    def follow(self, study: Study, parts: Sequence[Study], home: Home) -> None:
        """Show what is measured from now on; a later part's pipeline replaces an earlier part's."""
        self._followed = (study, parts, home)
        self._look()

    def _look(self) -> None:
        if self._followed is None:
            return
        study, parts, home = self._followed
        known: dict[tuple[str, str], PipelineMeans] = {}
        for part in parts:
            known |= means_of(part, home)
        first = study.metric(study.metrics[0])
        ranked = [one for one in known.values() if first.name in one.means]
        ranked.sort(key=lambda one: one.means[first.name], reverse=first.higher_is_better)
        self._metrics = [(name, study.metric(name).title) for name in study.metrics]
        places = dict.fromkeys((cell.chunking, cell.retriever) for cell in study.cells())
        self._waiting = [PipelineMeans(*place, {}).label for place in places if place not in known]
        if not self.is_live and ranked != self.pipelines:
            shown = ", ".join(f"{one.label} {one.means[first.name]:.3f}" for one in ranked)
            self._print(text(f"{first.title} so far: {shown}"))
        self.pipelines = ranked

    def above(self) -> RenderableType | None:
        return Group(text(self._estimate), *([self.table()] if self.pipelines else []), "")

    def table(self) -> Table:
        there = {name for one in self.pipelines for name in one.means}
        shown = [one for one in self._metrics if one[0] in there][:COLUMNS]
        table = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), title_justify="left")
        table.add_column("pipeline, best so far first")
        for _, heading in shown:
            table.add_column(heading, justify="right", overflow="fold", max_width=24)
        for one in self.pipelines:
            values = (one.means.get(name) for name, _ in shown)
            table.add_row(text(one.label), *(MISSING if v is None else f"{v:.3f}" for v in values))
        for label in self._waiting:
            table.add_row(text(label, "dim"), *("…" for _ in shown))
        return table

    def leave(self) -> None:
        if self.pipelines:
            rest = f"; {several(len(self._waiting), 'pipeline')} not measured yet" if self._waiting else ""
            out = console(width=width())
            out.print(self.table())
            out.print(text(f"These are means without tests{rest}."))

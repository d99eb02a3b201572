"""What the commands show on a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from rag_assay.evals.reporting.display import MISSING, listed, several
from rag_assay.orchestration.run_report import REASONS, RunReport, StageReport, by_reason
from rag_assay.orchestration.terminal.cli_errors import console, text, width
from rag_assay.orchestration.unchanged import IDLE
from rag_assay.warehouse.inference import models

if TYPE_CHECKING:
    from rich.text import Text

    from rag_assay.evals.reporting.data import ReportData
    from rag_assay.evals.study.run_studies import KnownStudy
    from rag_assay.warehouse.paths import Home


ABOVE = 6  # lines of a terminal that are left to what stands around a leaderboard
LEAST = 5  # cells that are shown however low the terminal is


def show_leaderboard(data: ReportData) -> None:
    from rag_assay.evals.reporting.terminal import ROWS, leaderboard_table

    out = console(width=width())
    height = shutil.get_terminal_size((100, 0)).lines if out.is_terminal else 0
    rows = ROWS
    board = leaderboard_table(data, out.width, rows)
    while height and rows > LEAST and len(out.render_lines(board)) > height - ABOVE:
        rows -= 1
        board = leaderboard_table(data, out.width, rows)
    out.print(board)


def stage_lines(stage: StageReport, place: str) -> list[Text]:
    """Return what is to be said of a stage that is finished: a line with its counts, then its sentences.

    >>> report = StageReport("chunks", 4, fresh=3, built=1, seconds=2.0)
    >>> [str(line) for line in stage_lines(report, "stage 3 of 9")]
    ['stage 3 of 9  chunks        1 computed · 3 up to date · 2.0 s']
    """
    counts = {
        "computed": stage.built,
        "reused": stage.reused,
        "failed": len(stage.failed),
        "left out": len(stage.left_out),
        "up to date": stage.fresh,
    }
    counted = " · ".join(f"{n:,} {name}" for name, n in counts.items() if n)
    first = text(f"{place}  {stage.stage:<12}  {counted or 'nothing to do'} · {stage.seconds:.1f} s")
    if stage.failed or stage.left_out:
        first.stylize("red")
    return [first, *(text(f"  {line}") for line in stage.sentences), *map(text, failure_lines(stage))]


def failure_lines(stage: StageReport) -> list[str]:
    """Return the reasons of a stage's failures, and the roots of what was left out, each once.

    >>> keys = ["s.a.bm25", "s.b.bm25"]
    >>> failure_lines(StageReport("answers", 2, failed={key: f"answers of {key}: no key" for key in keys}))
    ['  failed, 2 of 2: answers of …: no key (s.a.bm25 and s.b.bm25)']
    """
    lines = []
    for what, reasons in (("failed", stage.failed), ("left out", stage.left_out)):
        grouped = by_reason(reasons)
        for reason, keys in list(grouped.items())[:REASONS]:
            lines.append(f"  {what}, {len(keys)} of {stage.keys}: {reason} ({listed(keys)})")
        rest = len(grouped) - REASONS
        if rest > 0:
            left = sum(len(keys) for keys in list(grouped.values())[REASONS:])
            lines.append(f"  {what}, {left} of {stage.keys}: for {several(rest, 'other reason')}")
    return lines


def show_end(report: RunReport) -> None:
    idle = IDLE if report.ok and report.unchanged else ""
    console(stderr=True).print(text(f"{report.seconds:.1f} s in all{idle}\n"))


def show_models(home: Home) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("name", "kind", "MB", "licence", "here", "good for", "hub id"):
        table.add_column(name, overflow="fold")
    for model in models.known():
        here = "yes" if all((home.models / model.name / path).is_file() for path in model.files) else "no"
        hub = model.hub_id or "not there"
        table.add_row(
            model.name, model.kind, f"{model.size / 1e6:.0f}", model.licence, here, model.good_for, hub
        )
    console(width=width()).print(table)


def show_studies(studies: Sequence[KnownStudy]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name, right in (("study", False), ("cells", True), ("run at", False), ("file", False)):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for one in studies:
        at = one.run_at.astimezone().strftime("%Y-%m-%d %H:%M") if one.run_at else "not run yet"
        cells = MISSING if one.cells is None else f"{one.cells:,}"
        file = str(one.path) if one.path else "its file was deleted"
        table.add_row(text(one.name), cells, at, text(one.mistake or file))
        for part in one.slices:
            asked = f"{part.n_questions:,} of {part.of_questions:,} questions"
            what = f"slice of {part.whole}: {asked} ({part.options})"
            table.add_row(text(part.name), f"{part.n_cells} of {part.of_cells}", "", text(what))
    console(width=width()).print(table)

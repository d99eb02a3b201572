"""What the commands show on a terminal."""

from __future__ import annotations

import shutil

from rich.console import Console
from rich.table import Table

from evals.planning import Plan
from evals.reporting.data import ReportData
from evals.reporting.terminal import leaderboard_table
from orchestration.driver import RunReport
from warehouse import models
from warehouse.paths import Home

WIDEST = 140
FAILURES = 8


def _width() -> int:
    return min(WIDEST, max(80, shutil.get_terminal_size((100, 24)).columns))


def show_leaderboard(data: ReportData) -> None:
    """Print the headline and the leaderboards to standard output."""
    width = _width()
    Console(width=width, highlight=False).print(leaderboard_table(data, width))


def show_run(report: RunReport) -> None:
    """Print what a walk did, a line a stage, to stderr."""
    console = Console(stderr=True, width=_width(), highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stage")
    for name in ("up to date", "computed", "reused", "failed", "left out", "seconds"):
        table.add_column(name, justify="right")
    for stage in report.stages:
        counts = (stage.fresh, stage.built, stage.reused, len(stage.failed), len(stage.left_out))
        table.add_row(
            stage.stage, *(str(count) if count else "·" for count in counts), f"{stage.seconds:.1f}"
        )
    console.print(table)
    for stage in report.stages:
        for sentence in stage.told:
            console.print(sentence, markup=False)
        for key, reason in list(stage.failed.items())[:FAILURES]:
            console.print(f"[red]failed[/red] {stage.stage} of {key}: ", end="")
            console.print(reason, markup=False)
        if len(stage.failed) > FAILURES:
            console.print(f"[red]failed[/red] … and {len(stage.failed) - FAILURES} more of {stage.stage}")
    console.print(f"{report.seconds:.1f} s in all\n")


def failure_notes(report: RunReport) -> tuple[str, ...]:
    """Return a sentence for each stage in which something failed, for the report."""
    notes = []
    for stage in report.stages:
        if stage.failed:
            key, reason = next(iter(stage.failed.items()))
            notes.append(
                f"{len(stage.failed)} of {stage.keys} {stage.stage} failed, "
                f"first {key}: {reason.splitlines()[0]}"
            )
        if stage.left_out:
            notes.append(
                f"{len(stage.left_out)} of {stage.keys} {stage.stage} were left out: what they need failed"
            )
    return tuple(notes)


def show_plan(found: Plan) -> None:
    """Print a plan to standard output."""
    console = Console(width=_width(), highlight=False)
    console.print(f"{len(found.cells)} cells")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stage")
    for name in ("keys", "up to date", "to do", "of these not known yet"):
        table.add_column(name, justify="right")
    for stage in found.stages:
        table.add_row(
            stage.stage, str(stage.keys), str(stage.done), str(stage.to_do), str(stage.unknown or "·")
        )
    console.print(table)
    for key, texts in found.texts_to_embed.items():
        what = "not known before its chunks are there" if texts is None else f"{texts} texts"
        console.print(f"to embed for {key}: {what}")
    for call in found.calls:
        console.print(
            f"{call.generator} ({call.model}): at most {call.calls} calls in {call.cells} cells, "
            f"about {call.prompt_tokens:,} tokens read and at most "
            f"{call.completion_tokens:,} written; answers in the cache cost nothing"
        )
    for asked in found.enriching:
        calls = "not known before its chunks are there" if asked.calls is None else f"{asked.calls} calls"
        console.print(f"to enrich {asked.key} ({asked.model}): {calls}; those in the cache cost nothing")


def show_models(home: Home) -> None:
    """Print the registry to standard output."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("name", "kind", "MB", "licence", "here", "hub id"):
        table.add_column(name)
    for model in models.known():
        here = "yes" if all((home.models / model.name / path).is_file() for path in model.files) else "no"
        hub = model.hub_id or "not there"
        table.add_row(model.name, model.kind, f"{model.size / 1e6:.0f}", model.licence, here, hub)
    Console(width=_width(), highlight=False).print(table)

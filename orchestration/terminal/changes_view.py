"""Shows pages of what changed on a terminal."""

from __future__ import annotations

from rich.table import Table

from rag_assay.evals.reporting.changes.pages import ChangePage, Fold, PageTable
from rag_assay.orchestration.terminal.cli_errors import console, text, width


def show_page(page: ChangePage) -> None:
    """Print a page to standard output: sentences, tables and folds of each section."""
    out = console(width=width())
    for sentence in page.lead:
        out.print(text(sentence))
    for section in page.sections:
        if not (section.sentences or section.grids or section.folds):
            continue  # a chart, which a terminal does not show
        out.print()
        out.print(text(section.heading, "bold"))
        for sentence in section.sentences:
            out.print(text(sentence))
        for grid in section.grids:
            out.print(_table(grid))
        for fold in section.folds:
            for line in _lines(fold):
                out.print(text(line))


def _table(grid: PageTable) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, name in enumerate(grid.head):
        is_number = number in grid.numbers
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
    for row in grid.rows:
        table.add_row(*map(text, row))
    return table


def _lines(fold: Fold) -> list[str]:
    return [fold.title, *(f"    {label}: {part}" for label, part in fold.parts)]

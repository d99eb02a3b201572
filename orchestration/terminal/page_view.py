"""Shows a page of a report on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table

from rag_assay.evals.reporting.sections import Block, Definitions, Details, TitledPage, plain_text
from rag_assay.evals.reporting.sections import Table as PageTable
from rag_assay.orchestration.terminal.cli_errors import console, text, width

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

WORD = 16  # characters of a word or number that is not broken


def show_page(page: TitledPage) -> None:
    out = console(width=width())
    for sentence in page.lead:
        out.print(text(str(sentence)))
    for section in page.sections:
        lines = [line for block in section.blocks for line in block_lines(block)]
        if lines:  # a chart is not shown
            out.print()
            out.print(text(section.title, "bold"))
        for line in lines:
            out.print(line)


def block_lines(block: Block) -> Iterator[RenderableType]:
    """Yield what a terminal shows of a block; nothing of charts, and of what only a page shows."""
    match block:
        case str():
            yield text(plain_text(block))
        case PageTable():
            yield _table(block)
        case Details():
            yield text(block.title)
            for one in block.blocks:
                yield from block_lines(one)
        case Definitions():
            for term, meaning in block.items:
                yield text(f"    {term}: {plain_text(meaning)}")


def _table(found: PageTable) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    rows = [[plain_text(one if isinstance(one, str) else one.text) for one in row] for row in found.rows]
    for number, column in enumerate(found.columns):
        side: JustifyMethod = "right" if column.is_number else "left"
        # Numbers and words stay whole where there is room for them; a long title wraps.
        values = [row[number] for row in rows]
        whole = values if column.is_number else " ".join(values).split()
        least = min(WORD, max(map(cell_len, [*column.title.split(), *whole]), default=0))
        table.add_column(column.title, justify=side, overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*map(text, row))
    return table

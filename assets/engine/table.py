"""What people see of a stage's rows without opening a file: how many, the first ones, their distributions.

Everything here is computed when a key is recorded, from its Parquet file, and costs a few milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

from rag_assay.assets.engine.plots import histogram
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.schemas import Schema

ROWS = 5  # of a preview
CELL = 60  # characters of a cell of a preview
READ = 5_000  # rows that a plot looks at

Draw = Callable[[pl.DataFrame], str | None]


class Plot(NamedTuple):
    """A picture of some columns: what it is called, what it reads, how it is drawn, and of how many rows."""

    title: str
    columns: tuple[str, ...]
    draw: Draw
    most: int = READ


def distribution(title: str, column: str) -> Plot:
    """Return the plot of a column's numbers."""
    return Plot(title, (column,), lambda rows: histogram(rows[column]))


@dataclass(frozen=True)
class StageTable:
    """The table that a stage stores of a key.

    file: its name in the folder of an artifact
    schema: its columns
    columns: those of a preview
    chosen: the rows that a preview begins with; None: the first
    plots: pictures of it
    """

    file: str
    schema: Schema
    columns: tuple[str, ...]
    plots: tuple[Plot, ...] = ()
    chosen: Callable[[pl.LazyFrame], pl.LazyFrame] | None = None


class TablePreview(NamedTuple):
    """What is shown of a table: the number of rows, and Markdown by title."""

    rows: int
    markdown: dict[str, str]


def preview_table(table: StageTable, path: Path) -> TablePreview:
    """Return what is shown of a table that lies at ``path``.

    Raises:
        CorruptFileError: it cannot be read, or has other columns.
    """
    try:
        stored = pl.scan_parquet(path)
        rows = int(stored.select(pl.len()).collect().item())
        first = table.chosen(stored) if table.chosen else stored
        markdown = {}
        if rows and table.columns:
            markdown["preview"] = preview(first.select(table.columns).head(ROWS).collect(), rows)
        for plot in table.plots:
            drawn = plot.draw(stored.select(plot.columns).head(plot.most).collect())
            if drawn:
                markdown[plot.title] = drawn
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise CorruptFileError(f"{path} cannot be read: {error}") from error
    return TablePreview(rows, markdown)


def preview(rows: pl.DataFrame, of: int) -> str:
    """Return rows as a table in Markdown, and how many more there are; long texts are cut.

    What stands in a cell is shown as it is: it may be crawled text, and no sign of it is markup.

    >>> print(preview(pl.DataFrame({"text": ["a|b <img>"], "n": [1.25]}), 3))
    | text | n |
    |---|---|
    | a&#124;b &#60;img&#62; | 1.25 |
    <BLANKLINE>
    1 of 3 rows
    """
    head = [f"| {' | '.join(map(literal, rows.columns))} |", f"|{'---|' * rows.width}"]
    body = [f"| {' | '.join(literal(_text(value)) for value in row)} |" for row in rows.iter_rows()]
    return "\n".join([*head, *body, "", f"{len(rows)} of {of:,} rows"])


_MARKUP = re.compile(r"""[\\`*_{}\[\]<>()#+!|&~$"'=^@]|://|www\.""", re.IGNORECASE)


def literal(text: str) -> str:
    """Return a text in one line of Markdown that means nothing but itself: no markup, link or image."""
    line = "".join(one if one.isprintable() else " " for one in text)
    # U+2060 joins words and is not seen: without it, addresses become links although their signs are quoted.
    return _MARKUP.sub(
        lambda found: f"&#{ord(found[0])};" if len(found[0]) == 1 else f"{found[0][0]}\u2060{found[0][1:]}",
        line,
    )


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        value = ", ".join(map(str, value[:5]))
    text = "" if value is None else " ".join(str(value)[: 2 * CELL].split())
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"

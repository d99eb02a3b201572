"""What the UI shows of a stage's rows: how many, the first ones, their distributions."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from rag_assay.warehouse.errors import CorruptFileError

if TYPE_CHECKING:
    from rag_assay.warehouse.schemas import Schema

WIDTH, HEIGHT, FOOT = 240, 60, 12  # pixels of a histogram, and of the line below it
BINS = 16
ROW = 13  # pixels of a bar or an interval with its name
NAME, MOST, FEW = 20, 7, 5  # characters of a name, names in a picture, and in one of intervals
INK, FAINT, GREY = "#4f7cac", "#9ab", "#789"  # legible on white and on the UI's dark ground


class PlotInterval(NamedTuple):
    """A value with its interval; an end that is not known is None."""

    name: str
    value: float
    low: float | None
    high: float | None


def histogram(values: pl.Series) -> str | None:
    """Return a histogram as Markdown, with minimum, n and maximum; None where no number is finite."""
    numbers = values.cast(pl.Float64, strict=False).drop_nulls().to_numpy()
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return None
    low, high = float(numbers.min()), float(numbers.max())
    counts, _ = np.histogram(numbers, BINS, (low, high if high > low else low + 1))
    step = WIDTH / BINS
    heights = np.ceil(counts * (HEIGHT / counts.max())).astype(int)
    bars = "".join(
        f"M{number * step:g} {HEIGHT}h{step - 1:g}v-{height}h-{step - 1:g}z"
        for number, height in enumerate(heights)
        if height
    )
    foot = HEIGHT + FOOT - 2
    texts = (
        f'<text y="{foot}">{_short(low)}</text>'
        f'<text x="{WIDTH / 2:g}" y="{foot}" text-anchor="middle">n = {len(numbers)}</text>'
        f'<text x="{WIDTH}" y="{foot}" text-anchor="end">{_short(high)}</text>'
    )
    alt = f"{len(numbers)} values from {_short(low)} to {_short(high)}"
    return _image(f'<path fill="{INK}" d="{bars}"/>{texts}', HEIGHT + FOOT, alt)


def bars(counts: Mapping[str, float]) -> str | None:
    """Return the first numbers by name as bars; None where none is finite."""
    shown = [(name, value) for name, value in counts.items() if np.isfinite(value)][:MOST]
    if not shown:
        return None
    widest = max((abs(value) for _, value in shown), default=0.0) or 1.0
    lengths = [max(1, round(abs(value) / widest * 70)) for _, value in shown]
    path = "".join(f"M132 {n * ROW + 2}h{long}v9h-{long}z" for n, long in enumerate(lengths))
    texts = _column(128, [name for name, _ in shown]) + _column(238, [_short(value) for _, value in shown])
    alt = f"{len(shown)} of {len(counts)} numbers by name"
    return _image(f'<path fill="{INK}" d="{path}"/>{texts}', len(shown) * ROW, alt)


def intervals(rows: Sequence[PlotInterval]) -> str | None:
    """Return the first values with their intervals on one labelled scale; None where none is finite."""
    shown = [row for row in rows if np.isfinite(row.value)][:FEW]
    if not shown:
        return None
    ends = [one for row in shown for one in (row.low, row.value, row.high) if one is not None]
    least, most = min(ends), max(ends)
    scale = 100 / ((most - least) or 1.0)

    def x(value: float | None, otherwise: float) -> int:
        return 134 + round(((otherwise if value is None else value) - least) * scale)

    lines = "".join(
        f"M{x(row.low, row.value)} {n * ROW + 6}H{x(row.high, row.value)}" for n, row in enumerate(shown)
    )
    dots = "".join(f"M{x(row.value, row.value) - 2} {n * ROW + 4}h4v5h-4z" for n, row in enumerate(shown))
    foot = (len(shown) + 1) * ROW - 2
    scaled = f'<text x="134" y="{foot}">{_short(least)}</text><text x="220" y="{foot}">{_short(most)}</text>'
    texts = _column(128, [row.name for row in shown]) + scaled
    drawn = f'<path stroke="{FAINT}" stroke-width="2" d="{lines}"/><path fill="{INK}" d="{dots}"/>{texts}'
    alt = f"{len(shown)} of {len(rows)} values with their intervals"
    return _image(drawn, (len(shown) + 1) * ROW, alt)


def _column(x: int, texts: Sequence[str]) -> str:
    """Return texts below each other that end at ``x``; of a long one its end, where names of cells differ."""
    short = [text if len(text) <= NAME else f"…{text[1 - NAME :]}" for text in texts]
    plain = ["".join(one if one.isprintable() else " " for one in text) for text in short]
    lines = "".join(f'<tspan x="{x}" dy="{ROW}">{escape(one)}</tspan>' for one in plain)
    return f'<text y="-3" text-anchor="end">{lines}</text>'


def _short(value: float) -> str:
    """Return a number in about three digits.

    >>> [_short(one) for one in (0.51234, 128.0, 15321.2, 0.00012)]
    ['0.512', '128', '15,321', '0.00012']
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _image(drawn: str, height: int, alt: str) -> str:
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="8" fill="{GREY}">{drawn}</svg>'
    )
    return f"![{alt}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"


ROWS = 5  # of a preview
CELL = 60  # characters of a cell of a preview
READ = 5_000  # rows that a plot looks at

Draw: TypeAlias = "Callable[[pl.DataFrame], str | None]"


class Plot(NamedTuple):
    """A picture of some columns: what it is called, what it reads, how it is drawn, and of how many rows."""

    title: str
    columns: tuple[str, ...]
    draw: Draw
    most: int = READ


def distribution(title: str, column: str) -> Plot:
    return Plot(title, (column,), lambda rows: histogram(rows[column]))


@dataclass(frozen=True)
class StageTable:
    """The table that a stage stores of a key: file, columns of a preview, and its first rows."""

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
    try:
        stored = pl.scan_parquet(path)
        first = table.chosen(stored) if table.chosen else stored
        counted, shown, *plotted = pl.collect_all(
            [
                stored.select(pl.len()),
                first.select(table.columns).head(ROWS),
                *(stored.select(plot.columns).head(plot.most) for plot in table.plots),
            ]
        )
        rows = int(counted.item())
        markdown = {"preview": preview(shown, rows)} if rows and table.columns else {}
        drawn = {plot.title: plot.draw(of) for plot, of in zip(table.plots, plotted, strict=True)}
        markdown |= {title: picture for title, picture in drawn.items() if picture}
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise CorruptFileError(f"{path} cannot be read: {error}") from error
    return TablePreview(rows, markdown)


def preview(rows: pl.DataFrame, of: int) -> str:
    """Return rows as a Markdown table, and their total number; nothing in crawled text becomes markup.

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

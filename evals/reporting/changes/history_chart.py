"""The history of a study as a chart: the leading cells over its results, with what changed between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup, escape

from rag_assay.evals.reporting.changes.entry import CellValue
from rag_assay.evals.reporting.changes.history import HistoryStep
from rag_assay.evals.reporting.changes.labels import Labels
from rag_assay.evals.reporting.display import number, plain, truncate

CELLS = 5  # that have a line
STEPS = 60  # the last results are drawn
WIDTH, HEIGHT, LEFT, RIGHT, TOP = 960, 300, 62, 24, 16
ROW = 20  # of the legend below
_MARKERS = ("circle", "square", "triangle", "diamond", "cross")


def lines_of(found: Sequence[HistoryStep]) -> list[str]:
    """Return the cells that have a line: those of the last tie group, and those that led most often."""
    led = Counter(step.entry.leader for step in found if step.entry.leader)
    last = [one.cell for one in found[-1].best] if found else []
    ordered = sorted(
        {*led, *last}, key=lambda cell: (cell not in last[:1], -led[cell], cell not in last, cell)
    )
    return ordered[:CELLS]


def history_svg(found: Sequence[HistoryStep], label: Labels) -> Markup | None:
    """Draw the history; None where there are fewer than two results, or no values."""
    shown = list(found)[-STEPS:]
    cells = lines_of(shown)
    values = {
        cell: [next((one for one in step.entry.cells if one.cell == cell), None) for step in shown]
        for cell in cells
    }
    ends = [
        end
        for those in values.values()
        for one in those
        if one is not None
        for end in (one.value, one.low, one.high)
        if end is not None
    ]
    if len(shown) < 2 or not ends:
        return None
    low, high = min(ends), max(ends)
    margin = (high - low or abs(high) or 1.0) * 0.06
    plot = _Plot(low - margin, high + margin, len(shown))
    metric = shown[-1].entry.primary
    title = f"{metric.title} of the leading cells over {len(shown)} results, with 95 % intervals"
    height = HEIGHT + 34 + ROW * (len(cells) + 1)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{_text(title)}">',
        *_axes(plot, shown, metric.unit),
    ]
    for index, cell in enumerate(cells):
        parts += _line(plot, index, values[cell])
        y = HEIGHT + 48 + ROW * index
        parts.append(
            f'<g class="cell-{index}">{_marker(index, LEFT + 6, y - 4)}'
            f'<text x="{LEFT + 20}" y="{y}">{_text(truncate(label(cell), 110))}</text></g>'
        )
    y = HEIGHT + 48 + ROW * len(cells)
    legend = "dashed lines: D documents, Q questions, R recipes, C code or weights changed; ! leader replaced"
    parts.append(f'<text class="soft" x="{LEFT}" y="{y}">{_text(legend)}</text></svg>')
    return Markup("".join(parts))  # noqa: S704 -- its texts are escaped


class _Plot:
    """Places values and results on the drawing."""

    def __init__(self, low: float, high: float, results: int) -> None:
        self.low, self.high, self.results = low, high, results

    def x(self, number_: int) -> float:
        """Return the place of the result of that number, from 0."""
        return round(LEFT + 20 + number_ * (WIDTH - LEFT - RIGHT - 40) / (self.results - 1), 1)

    def y(self, value: float) -> float:
        """Return the place of a value."""
        return round(TOP + (self.high - value) / (self.high - self.low) * (HEIGHT - TOP - 24), 1)


def _axes(plot: _Plot, shown: Sequence[HistoryStep], unit: str) -> list[str]:
    parts = []
    for index in range(5):
        value = plot.low + (plot.high - plot.low) * index / 4
        y = plot.y(value)
        parts.append(f'<line class="rule" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>')
        label = _text(number(value, unit))
        parts.append(f'<text class="soft" x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{label}</text>')
    every = max(1, -(-len(shown) // 8))
    for index, step in enumerate(shown):
        x = plot.x(index)
        if index % every == 0 or index == len(shown) - 1:
            when = f"{step.entry.at:%Y-%m-%d}"
            parts.append(f'<text class="soft" x="{x}" y="{HEIGHT + 12}" text-anchor="middle">{when}</text>')
        marks = marks_of(step) if index else ""
        if marks:
            parts.append(f'<line class="mark" x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - 20}"/>')
            parts.append(f'<text x="{x}" y="{TOP - 4}" text-anchor="middle">{marks}</text>')
    return parts


def marks_of(step: HistoryStep) -> str:
    """Return letters for what changed since the result before.

    D: documents, Q: questions, R: recipes, C: code or weights, !: the leader of before is behind now
    """
    letters = {
        "D": step.documents is None or bool(step.documents),
        "Q": bool(step.parts.questions),
        "R": bool(step.parts.recipes),
        "C": bool(step.parts.code or step.parts.weights),
        "!": step.replaced,
    }
    return "".join(letter for letter, is_so in letters.items() if is_so)


def _line(plot: _Plot, index: int, values: Sequence[CellValue | None]) -> list[str]:
    """Draw a cell: a point a result, its interval, and lines between results that follow each other."""
    parts = [f'<g class="cell-{index}">']
    row: list[str] = []
    for at, one in enumerate([*values, None]):
        if one is None or one.value is None:
            if len(row) > 1:
                parts.append(f'<polyline points="{" ".join(row)}"/>')
            row = []
            continue
        # Side by side, so that intervals do not hide each other.
        x, y = plot.x(at) + (index - 2) * 3, plot.y(one.value)
        row.append(f"{x},{y}")
        if one.low is not None and one.high is not None:
            ends = f'y1="{plot.y(one.low)}" x2="{x}" y2="{plot.y(one.high)}"'
            parts.append(f'<line x1="{x}" {ends} stroke="currentColor" opacity=".45"/>')
        parts.append(_marker(index, x, y))
    return [*parts, "</g>"]


def _marker(index: int, x: float, y: float) -> str:
    shapes = {
        "circle": f'<circle cx="{x}" cy="{y}" r="4"/>',
        "square": f'<path fill="currentColor" d="M{x - 4},{y - 4}h8v8h-8z"/>',
        "triangle": f'<path fill="currentColor" d="M{x},{y - 5}l5,9h-10z"/>',
        "diamond": f'<path fill="currentColor" d="M{x},{y - 5}l5,5l-5,5l-5,-5z"/>',
        "cross": f'<path stroke="currentColor" stroke-width="2" d="M{x - 4},{y - 4}l8,8m0,-8l-8,8"/>',
    }
    return shapes[_MARKERS[index % len(_MARKERS)]]


def _text(words: str) -> str:
    return str(escape(plain(words)))

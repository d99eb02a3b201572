"""The history of a study as rows, as a chart and as a page."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from rag_assay.evals.reporting.changes.pages import Labels, labels_of
from rag_assay.evals.reporting.changes.results import (
    CellValue,
    Change,
    HistoryEntry,
    PartChanges,
    document_changes,
    part_changes,
    snapshot,
)
from rag_assay.evals.reporting.charts.marks import Scale
from rag_assay.evals.reporting.display import MISSING, interval, number, plain, several, truncate
from rag_assay.evals.reporting.sections import Column, Html, PageSection, Table, TitledPage, numbers
from rag_assay.warehouse.artifacts import ArtifactStore

SIGNS = {Change.ADDED: "+", Change.REMOVED: "−", Change.TEXT: "~", Change.MOVED: "→", Change.FACTS: "·"}


@dataclass(frozen=True)
class HistoryStep:
    """A result, and what differs from the one before it.

    back: how many results ago
    documents: kind of change -> documents; None where those of either result are gone
    replaced: whether the previous leader is significantly worse than the current one
    """

    entry: HistoryEntry
    back: int
    documents: dict[Change, int] | None
    parts: PartChanges
    replaced: bool

    @property
    def best(self) -> tuple[CellValue, ...]:
        return self.entry.tied

    @property
    def corpus(self) -> str:
        """Document changes, as `+1 −2 ~3`."""
        if self.documents is None:
            return "?"
        return " ".join(f"{SIGNS[kind]}{n}" for kind, n in self.documents.items() if n)


def steps(entries: Sequence[HistoryEntry], store: ArtifactStore) -> list[HistoryStep]:
    found = [HistoryStep(one, len(entries) - 1, {}, PartChanges(), replaced=False) for one in entries[:1]]
    for at, (before, entry) in enumerate(pairwise(entries), 1):
        changes = _documents(before, entry, store), part_changes(before, entry, store)
        replaced = before.leader is not None and before.leader not in {one.cell for one in entry.tied}
        found.append(HistoryStep(entry, len(entries) - 1 - at, *changes, replaced=replaced))
    return found


def _documents(before: HistoryEntry, after: HistoryEntry, store: ArtifactStore) -> dict[Change, int] | None:
    changed = {
        name
        for name in {*before.sources, *after.sources}
        if before.sources.get(name, {}).get("data_version") != after.sources.get(name, {}).get("data_version")
    }
    if not changed:
        return {}
    old, new = snapshot(before, store), snapshot(after, store)
    if old.gone or new.gone:
        return None
    counts = Counter(one.change for one in document_changes(old, new))
    return {kind: counts[kind] for kind in Change if counts[kind]}


def history_records_of(found: Sequence[HistoryStep]) -> list[dict[str, Any]]:
    rows = []
    for step in found:
        entry, leader = step.entry, step.entry.leading
        rows.append(
            {
                "study": entry.study,
                "back": step.back,
                "since": entry.at.isoformat(),
                "leaderboard": entry.leaderboard,
                "run": entry.run,
                "metric": entry.metric,
                "leader": entry.leader,
                **{name: getattr(leader, name, None) for name in ("value", "low", "high")},
                "tied": [one.cell for one in step.best],
                "within_margin": [one.cell for one in entry.within_margin],
                "leader_replaced": step.replaced,
                "documents": entry.documents,
                "documents_changed": None
                if step.documents is None
                else {kind.value: n for kind, n in step.documents.items()},
                "questions": entry.n_questions,
                **{f"{kind}_changed": _named(names) for kind, names in step.parts.by_kind.items()},
                "other": list(step.parts.other),
            }
        )
    return rows


def _named(found: Any) -> dict[str, list[str]]:
    parts = {"added": found.added, "removed": found.removed, "changed": found.changed}
    return {kind: list(names) for kind, names in parts.items() if names}


def history_json(found: Sequence[HistoryStep]) -> str:
    rows = history_records_of(found)
    for row, step in zip(rows, found, strict=True):
        row["cells"] = [vars(one) for one in step.entry.cells]
    return json.dumps(rows, indent=1, ensure_ascii=False)


def history_csv(found: Sequence[HistoryStep]) -> str:
    """One row a result; lists and counts are JSON."""
    rows = history_records_of(found)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["study"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {
                name: json.dumps(value) if isinstance(value, dict | list) else value
                for name, value in row.items()
            }
        )
    return out.getvalue()


def since_words(step: HistoryStep) -> str:
    """Document changes first, then what else differs; empty where nothing does."""
    parts = [f"documents {step.corpus}" if step.corpus else ""]
    parts += [f"{what} {found.counts}" for what, found in step.parts.by_kind.items() if found]
    return "; ".join([*(part for part in parts if part), *step.parts.other])


CELLS = 5  # that have a line
STEPS = 60  # the last results are drawn
WIDTH, HEIGHT, LEFT, RIGHT, TOP = 960, 300, 62, 24, 16
ROW = 20  # of the legend below
_MARKERS = ("circle", "square", "triangle", "diamond", "cross")


def lines_of(found: Sequence[HistoryStep]) -> list[str]:
    """Return the cells of the last tie group, and those that led most often."""
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
    across = Scale(0, len(shown) - 1, LEFT + 20, WIDTH - RIGHT - 20)
    up = Scale(low - margin, high + margin, HEIGHT - 24, TOP)
    metric = shown[-1].entry.primary
    title = f"{metric.title} of the leading cells over {len(shown)} results, with 95 % intervals"
    height = HEIGHT + 34 + ROW * (len(cells) + 1)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{_text(title)}">',
        *_axes(across, up, shown, metric.unit),
    ]
    for index, cell in enumerate(cells):
        parts += _line(across, up, index, values[cell])
        y = HEIGHT + 48 + ROW * index
        parts.append(
            f'<g class="cell-{index}">{_marker(index, LEFT + 6, y - 4)}'
            f'<text x="{LEFT + 20}" y="{y}">{_text(truncate(label(cell), 110))}</text></g>'
        )
    y = HEIGHT + 48 + ROW * len(cells)
    legend = "dashed lines: D documents, Q questions, R recipes, C code or weights changed; ! leader replaced"
    parts.append(f'<text class="soft" x="{LEFT}" y="{y}">{_text(legend)}</text></svg>')
    return Markup(f'<figure class="history">{"".join(parts)}</figure>')  # noqa: S704 -- its texts are escaped


def _axes(across: Scale, up: Scale, shown: Sequence[HistoryStep], unit: str) -> list[str]:
    parts = []
    for index in range(5):
        value = up.low + (up.high - up.low) * index / 4
        y = up.at(value)
        parts.append(f'<line class="rule" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>')
        label = _text(number(value, unit))
        parts.append(f'<text class="soft" x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{label}</text>')
    every = max(1, -(-len(shown) // 8))
    for index, step in enumerate(shown):
        x = across.at(index)
        if index % every == 0 or index == len(shown) - 1:
            when = f"{step.entry.at:%Y-%m-%d}"
            parts.append(f'<text class="soft" x="{x}" y="{HEIGHT + 12}" text-anchor="middle">{when}</text>')
        marks = marks_of(step) if index else ""
        if marks:
            parts.append(f'<line class="mark" x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - 20}"/>')
            parts.append(f'<text x="{x}" y="{TOP - 4}" text-anchor="middle">{marks}</text>')
    return parts


def marks_of(step: HistoryStep) -> str:
    """D: documents, Q: questions, R: recipes, C: code or weights, !: the previous leader is behind."""
    letters = {
        "D": step.documents is None or bool(step.documents),
        "Q": bool(step.parts.questions),
        "R": bool(step.parts.recipes),
        "C": bool(step.parts.code or step.parts.weights),
        "!": step.replaced,
    }
    return "".join(letter for letter, is_so in letters.items() if is_so)


def _line(across: Scale, up: Scale, index: int, values: Sequence[CellValue | None]) -> list[str]:
    parts = [f'<g class="cell-{index}">']
    row: list[str] = []
    for at, one in enumerate([*values, None]):
        if one is None or one.value is None:
            if len(row) > 1:
                parts.append(f'<polyline points="{" ".join(row)}"/>')
            row = []
            continue
        # Side by side, so that intervals do not hide each other.
        x, y = across.at(at) + (index - 2) * 3, up.at(one.value)
        row.append(f"{x},{y}")
        if one.low is not None and one.high is not None:
            ends = f'y1="{up.at(one.low)}" x2="{x}" y2="{up.at(one.high)}"'
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


LEGEND = (
    "Documents: + added, − removed, ~ text changed, → moved, · facts changed alone. "
    "All else: + new, − gone, ~ changed."
)


def history_page(study: str, found: Sequence[HistoryStep]) -> TitledPage:
    metric = found[-1].entry.primary
    label = labels_of({one.cell for step in found for one in step.entry.cells})
    rows = [_row(step, label) for step in reversed(found)]
    columns = [Column("result"), Column("since (UTC)"), Column("leader"), *numbers(metric.title)]
    columns += [
        Column("interval"),
        *numbers("tied", "within the margin", "documents", "questions"),
        Column("what had changed"),
    ]
    chart = history_svg(found, label)
    lead = _lead(study, found, label)
    sections = (
        *([PageSection("", "Over time", [Html(chart)])] if chart else []),
        PageSection(
            "", "Results", [f"`{study}@1` is one result back. {LEGEND}", Table("Results", columns, rows)]
        ),
        *_written(found),
    )
    return TitledPage(f"{study} – history", "History of a study", lead, sections)


def _lead(study: str, found: Sequence[HistoryStep], label: Labels) -> tuple[str, ...]:
    last = found[-1].entry
    replaced = sum(step.replaced for step in found)
    times = "once" if replaced == 1 else f"{replaced} times"
    how = f"was replaced {times}" if replaced else "was never replaced"
    first = (
        f"{study} has had {several(len(found), 'result')} since {found[0].entry.at:%Y-%m-%d}; "
        f"the leader {how} by a significantly better one."
    )
    if last.leader is None:
        return (first, "No cell has a rank now.")
    tied, within = last.near.values()
    near = f", tied with {several(tied, 'pipeline')}" if tied else ""
    near += f"; {several(within, 'pipeline')} within the margin" if within else ""
    return (first, f"{label(last.leader)} leads now{near}.")


def _row(step: HistoryStep, label: Labels) -> tuple[str, ...]:
    entry, leading = step.entry, step.entry.leading
    unit = entry.primary.unit
    return (
        f"@{step.back}",
        f"{entry.at:%Y-%m-%d %H:%M}",
        (label(entry.leader) if entry.leader else MISSING)
        + (" (the previous leader is significantly worse)" if step.replaced else ""),
        number(leading.value if leading else None, unit),
        interval(leading.low, leading.high, unit) if leading else MISSING,
        *map(str, entry.near.values()),
        str(entry.documents),
        str(entry.n_questions),
        since_words(step) or ("the first that is known" if entry.number == 1 else "measured again"),
    )


def _written(found: Sequence[HistoryStep]) -> list[PageSection]:
    rows = [
        (f"@{step.back}", name, text) for step in reversed(found) for name, text in step.parts.written.items()
    ]
    columns = [Column(name) for name in ("result", "part", "before and after")]
    table = Table("Recipes that changed", columns, rows)
    return [PageSection("", "Recipes that changed", [table])] if rows else []

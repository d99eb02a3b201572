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
from rag_assay.evals.reporting.charts import marks
from rag_assay.evals.reporting.display import MISSING, interval, number, several
from rag_assay.evals.reporting.sections import (
    Block,
    Column,
    PageSection,
    Plane,
    PlotLine,
    Point,
    Shape,
    Table,
    Tick,
    TitledPage,
    numbers,
)
from rag_assay.warehouse.artifacts import ArtifactStore

SIGNS = {Change.ADDED: "+", Change.REMOVED: "−", Change.TEXT: "~", Change.MOVED: "→", Change.FACTS: "·"}


@dataclass(frozen=True)
class HistoryStep:
    """A result, and what differs from the one before it; back: how many results ago.

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
    return [
        {
            "study": step.entry.study,
            "back": step.back,
            "since": step.entry.at.isoformat(),
            **{name: getattr(step.entry, name) for name in ("leaderboard", "run", "metric", "leader")},
            **{name: getattr(step.entry.leading, name, None) for name in ("value", "low", "high")},
            "tied": [one.cell for one in step.best],
            "within_margin": [one.cell for one in step.entry.within_margin],
            "leader_replaced": step.replaced,
            "documents": step.entry.documents,
            "documents_changed": step.documents and {kind.value: n for kind, n in step.documents.items()},
            "questions": step.entry.n_questions,
            **{
                f"{kind}_changed": {how: list(names) for how, names in vars(one).items() if names}
                for kind, one in step.parts.by_kind.items()
            },
            "other": list(step.parts.other),
        }
        for step in found
    ]


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
        nested = {name: json.dumps(value) for name, value in row.items() if isinstance(value, dict | list)}
        writer.writerow(row | nested)
    return out.getvalue()


def since_words(step: HistoryStep) -> str:
    """Document changes first, then what else differs; empty where nothing does."""
    parts = [f"documents {step.corpus}" if step.corpus else ""]
    parts += [f"{what} {found.counts}" for what, found in step.parts.by_kind.items() if found]
    return "; ".join([*(part for part in parts if part), *step.parts.other])


CELLS = 5  # that have a line
STEPS = 60  # the last results are drawn
DATES = 4  # that are written below the chart
SHAPES: tuple[Shape, ...] = ("disc", "diamond", "ring", "cross")


def lines_of(found: Sequence[HistoryStep]) -> list[str]:
    led = Counter(step.entry.leader for step in found if step.entry.leader)
    last = [one.cell for one in found[-1].best] if found else []
    ordered = sorted(
        {*led, *last}, key=lambda cell: (cell not in last[:1], -led[cell], cell not in last, cell)
    )
    return ordered[:CELLS]


def history_chart(found: Sequence[HistoryStep], label: Labels) -> Plane | None:
    """Draw the history; None where there are fewer than two results, or no values."""
    shown = list(found)[-STEPS:]
    of_cells = [{one.cell: one for one in step.entry.cells} for step in shown]
    rows = {cell: [step.get(cell) for step in of_cells] for cell in lines_of(shown)}
    ends = marks.finite(
        end for row in rows.values() for one in row if one for end in (one.value, one.low, one.high)
    )
    if len(shown) < 2 or not ends:
        return None
    across = marks.Scale(0, len(shown) - 1, 3, 97)
    up = marks.upward(marks.Scale(*marks.domain(ends)))
    metric, every = shown[-1].entry.primary, -(-len(shown) // DATES)
    points: list[Point] = []
    lines: list[PlotLine] = []
    for style, (cell, row) in enumerate(rows.items()):
        places: list[tuple[float, float]] = []
        for at, one in enumerate([*row, None]):
            if one is not None and one.value is not None:
                # Side by side, so that intervals do not hide each other.
                places.append((across.at(at) + 0.4 * (style - CELLS // 2), up.at(one.value)))
                low, high = (None if end is None else up.at(end) for end in (one.low, one.high))
                words = f"{shown[at].entry.at:%Y-%m-%d}, {label(cell)}: {number(one.value, metric.unit)}"
                shape = SHAPES[style % len(SHAPES)]
                points.append(Point(*places[-1], shape, words, None, low, high, pipeline=cell, style=style))
            elif places:
                is_first = all(one.style != style for one in lines)
                drawn = " ".join(f"{x:.5g},{y:.5g}" for x, y in places)
                number_at = places[len(places) * style // CELLS]
                named, n = (label(cell), style + 1) if is_first else ("", None)
                lines.append(PlotLine(drawn, style, named, (), n, number_at))
                places = []
    dates = {at: f"{shown[at].entry.at:%Y-%m-%d}" for at in range(len(shown) - 1, -1, -every)}
    changed = ["", *map(marks_of, shown[1:])]
    return Plane(
        "chart-history",
        f"{metric.title} of the leading cells",
        f"Over {len(shown)} results, with 95 % intervals. At the top: D documents, Q questions, R recipes, "
        "C code or weights changed; ! leader replaced.",
        "",
        metric.title,
        tuple(
            Tick(across.at(at), dates.get(at, ""), above)
            for at, above in enumerate(changed)
            if at in dates or above
        ),
        marks.ticks(up, 5, metric.unit),
        tuple(points),
        tuple(lines),
    )


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


LEGEND = (
    "Documents: + added, − removed, ~ text changed, → moved, · facts changed alone. "
    "All else: + new, − gone, ~ changed."
)


def history_page(study: str, found: Sequence[HistoryStep]) -> TitledPage:
    metric = found[-1].entry.primary
    label = labels_of({one.cell for step in found for one in step.entry.cells})
    rows = [_row(step, label) for step in reversed(found)]
    columns = [Column("result"), Column("since (UTC)"), Column("leader"), *numbers(metric.title)]
    counts = numbers("tied", "within the margin", "documents", "questions")
    columns += [Column("interval"), *counts, Column("what had changed")]
    chart = history_chart(found, label)
    lead = _lead(study, found, label)
    results: list[Block] = [f"`{study}@1` is one result back. {LEGEND}", Table("Results", columns, rows)]
    sections = [PageSection("", "Over time", [chart])] if chart else []
    sections += [PageSection("", "Results", results), *_written(found)]
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

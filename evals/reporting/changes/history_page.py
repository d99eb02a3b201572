"""The history of a study as a page: chart and table, the newest result first."""

from __future__ import annotations

from collections.abc import Sequence

from rag_assay.evals.reporting.changes.history import HistoryStep, since_words
from rag_assay.evals.reporting.changes.history_chart import history_svg
from rag_assay.evals.reporting.changes.labels import Labels, labels_of
from rag_assay.evals.reporting.changes.pages import ChangePage, PageSection, table_of
from rag_assay.evals.reporting.display import MISSING, interval, number, several

SIGNS = (
    "Documents: + added, − removed, ~ text changed, → moved, · facts changed alone. "
    "All else: + new, − gone, ~ changed."
)


def history_page(study: str, found: Sequence[HistoryStep]) -> ChangePage:
    """Return the history of a study; ``found``: its results, the oldest first."""
    metric = found[-1].entry.primary
    label = labels_of({one.cell for step in found for one in step.entry.cells})
    rows = [_row(step, label) for step in reversed(found)]
    head = (
        "result",
        "since (UTC)",
        "leader",
        metric.title,
        "interval",
        "tied",
        "documents",
        "questions",
        "what had changed",
    )
    chart = history_svg(found, label)
    lead = _lead(study, found, label)
    sections = (
        *([PageSection("Over time", chart=chart)] if chart else []),
        PageSection(
            "Results", (f"`{study}@1` is one result back. {SIGNS}",), (table_of(head, rows, (3, 5, 6, 7)),)
        ),
        *_written(found),
    )
    return ChangePage(f"{study} – history", "History of a study", lead, sections)


def _lead(study: str, found: Sequence[HistoryStep], label: Labels) -> tuple[str, ...]:
    last = found[-1].entry
    replaced = sum(step.replaced for step in found)
    times = "never" if not replaced else "once" if replaced == 1 else f"{replaced} times"
    first = (
        f"{study} has had {several(len(found), 'result')} since {found[0].entry.at:%Y-%m-%d}; "
        f"{times} has a leader fallen behind by more than chance."
    )
    if last.leader is None:
        return (first, "No cell has a rank now.")
    others = len(last.tied) - 1
    tied = f", tied with {several(others, 'pipeline')}" if others > 0 else ""
    return (first, f"{label(last.leader)} leads now{tied}.")


def _row(step: HistoryStep, label: Labels) -> tuple[str, ...]:
    entry, leading = step.entry, step.entry.leading
    unit = entry.primary.unit
    return (
        f"@{step.back}",
        f"{entry.at:%Y-%m-%d %H:%M}",
        (label(entry.leader) if entry.leader else MISSING)
        + (" (the one before has fallen behind)" if step.replaced else ""),
        number(leading.value if leading else None, unit),
        interval(leading.low, leading.high, unit) if leading else MISSING,
        str(len(step.best)),
        str(entry.documents),
        str(entry.n_questions),
        since_words(step) or ("the first that is known" if entry.number == 1 else "measured again"),
    )


def _written(found: Sequence[HistoryStep]) -> list[PageSection]:
    """Return what recipes said before and say now, of the results in which one changed."""
    rows = [
        (f"@{step.back}", name, text) for step in reversed(found) for name, text in step.parts.written.items()
    ]
    return (
        [PageSection("Recipes that changed", (), (table_of(("result", "part", "before and after"), rows),))]
        if rows
        else []
    )

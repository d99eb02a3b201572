"""The history of a study as rows: who led when, and what had changed."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rag_assay.evals.reporting.changes.documents import Change, document_changes, snapshot
from rag_assay.evals.reporting.changes.entry import CellValue, HistoryEntry
from rag_assay.evals.reporting.changes.parts import PartChanges, part_changes
from rag_assay.warehouse.artifacts import ArtifactStore

SIGNS = {Change.ADDED: "+", Change.REMOVED: "−", Change.TEXT: "~", Change.MOVED: "→", Change.FACTS: "·"}


@dataclass(frozen=True)
class HistoryStep:
    """A result, and what differs from the one before it.

    back: how many results ago it was
    documents: kind of change -> how many documents; None where those of then or before are gone
    parts: what else differs; of the first result nothing
    replaced: whether the cell that led before is significantly worse than the leader now
    """

    entry: HistoryEntry
    back: int
    documents: dict[Change, int] | None
    parts: PartChanges
    replaced: bool

    @property
    def best(self) -> tuple[CellValue, ...]:
        """The leader and the cells tied with it."""
        return self.entry.tied

    @property
    def corpus(self) -> str:
        """What changed of the documents, in a few characters: `+1 −2 ~3`."""
        if self.documents is None:
            return "?"
        return " ".join(f"{SIGNS[kind]}{n}" for kind, n in self.documents.items() if n)


def steps(entries: Sequence[HistoryEntry], store: ArtifactStore) -> list[HistoryStep]:
    """Return the results of a study with what changed, the oldest first."""
    found = []
    for number, entry in enumerate(entries):
        before = entries[number - 1] if number else None
        back = len(entries) - 1 - number
        if before is None:
            found.append(HistoryStep(entry, back, {}, PartChanges(), replaced=False))
            continue
        tied = {one.cell for one in entry.tied}
        found.append(
            HistoryStep(
                entry,
                back,
                _documents(before, entry, store),
                part_changes(before, entry, store),
                replaced=before.leader is not None and before.leader not in tied,
            )
        )
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
    """Return a history as plain rows, the oldest first, for JSON and CSV."""
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
                "value": leader.value if leader else None,
                "low": leader.low if leader else None,
                "high": leader.high if leader else None,
                "tied": [one.cell for one in step.best],
                "leader_replaced": step.replaced,
                "documents": entry.documents,
                "documents_changed": None
                if step.documents is None
                else {kind.value: n for kind, n in step.documents.items()},
                "questions": entry.n_questions,
                "questions_changed": _named(step.parts.questions),
                "recipes_changed": _named(step.parts.recipes),
                "code_changed": _named(step.parts.code),
                "weights_changed": _named(step.parts.weights),
                "other": list(step.parts.other),
            }
        )
    return rows


def _named(found: Any) -> dict[str, list[str]]:
    parts = {"added": found.added, "removed": found.removed, "changed": found.changed}
    return {kind: list(names) for kind, names in parts.items() if names}


def history_json(found: Sequence[HistoryStep]) -> str:
    """Return a history as JSON: each result with the values of all cells."""
    rows = history_records_of(found)
    for row, step in zip(rows, found, strict=True):
        row["cells"] = [vars(one) for one in step.entry.cells]
    return json.dumps(rows, indent=1, ensure_ascii=False)


def history_csv(found: Sequence[HistoryStep]) -> str:
    """Return a history as CSV, a row a result; lists and counts as JSON in their fields."""
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
    """Say in a few words what changed since the result before; empty where nothing did.

    A mark for each kind of document change, then what else differs.
    """
    parts = [f"documents {step.corpus}" if step.corpus else ""]
    for what, found in (
        ("questions", step.parts.questions),
        ("recipes", step.parts.recipes),
        ("code", step.parts.code),
        ("weights", step.parts.weights),
    ):
        parts.append(f"{what} {found.counts}" if found else "")
    return "; ".join([*(part for part in parts if part), *step.parts.other])

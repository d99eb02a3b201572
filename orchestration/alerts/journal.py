"""Alert events, and the journal of what was sent: `<home>/alerts/<study>.jsonl`, which only grows.

An event is a line, and so is each channel that it was sent through. What has no such line is sent by the next
run, for a week.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rag_assay.evals.reporting.display import plain
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.redaction import without_key
from rag_assay.warehouse.journal import append, read_records
from rag_assay.warehouse.paths import Home

TITLE = 200  # characters


@dataclass(frozen=True)
class AlertEvent:
    """Something that happened to a study, once.

    id: of the event: an event that is found again is not sent again
    kind: `evals.study.sections.AlertKind`, or `test`
    figures: numbers and names behind the text, JSON only
    report: path of the study's report
    """

    id: str
    kind: str
    study: str
    title: str
    text: str
    at: str
    report: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return plain(without_key(" ".join(self.title.split())))[:TITLE]

    @property
    def body(self) -> str:
        return plain(
            f"{without_key(self.text)}\n\nStudy:  {self.study}\nReport: {self.report}\nSince:  {self.at}\n"
        )

    def payload(self) -> dict[str, Any]:
        return {**asdict(self), "title": self.subject, "text": plain(without_key(self.text))}


def new_event(
    kind: str,
    study: str,
    key: Sequence[Any],
    title: str,
    text: str,
    at: str = "",
    figures: Mapping[str, Any] | None = None,
) -> AlertEvent:
    """Return an event; key: what beside kind and study makes it another one. at: default: now."""
    at = at or datetime.now(UTC).isoformat(timespec="seconds")
    return AlertEvent(
        digest([kind, study, *key]), kind, study, f"{study}: {title}", text, at, "", figures or {}
    )


LINE = "line"
KEPT = timedelta(days=7)  # an event that could not be told so long is old news


class Journal:
    """The journal of one study."""

    def __init__(self, home: Home, study: str) -> None:
        self.path = home.root / "alerts" / f"{study}.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        return list(read_records(self.path, _is_line))

    def note(self, events: Sequence[AlertEvent]) -> None:
        noted = datetime.now(UTC).isoformat()
        self._add([{LINE: f"event {one.id}", "noted": noted, **asdict(one)} for one in events])

    def sent(self, event: AlertEvent, channel: str) -> None:
        self.mark(f"sent {event.id} {channel}")

    def mark(self, what: str) -> None:
        self._add([{LINE: what, "at": datetime.now(UTC).isoformat()}])

    def _add(self, records: list[dict[str, Any]]) -> None:
        if records:
            append(self.path, records, LINE, _is_line)

    def waiting(self, channels: Sequence[str]) -> list[tuple[AlertEvent, str]]:
        lines = self.lines()
        done = {one[LINE] for one in lines}
        found = []
        for one in lines:
            if not one[LINE].startswith("event "):
                continue
            event = AlertEvent(**{name: one[name] for name in AlertEvent.__dataclass_fields__ if name in one})
            if datetime.fromisoformat(one["noted"]) < datetime.now(UTC) - KEPT:
                continue
            found += [(event, name) for name in channels if f"sent {event.id} {name}" not in done]
        return found


def _is_line(record: dict[str, Any]) -> bool:
    return isinstance(record.get(LINE), str)

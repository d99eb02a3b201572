"""What somebody may want to be told of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_assay.evals.reporting.display import plain
from rag_assay.warehouse.inference.redaction import without_key

TITLE = 200  # characters


@dataclass(frozen=True)
class AlertEvent:
    """Something that happened to a study, once.

    id: of the event: whoever finds it again tells nobody again
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
        """The title in one line."""
        return plain(without_key(" ".join(self.title.split())))[:TITLE]

    @property
    def body(self) -> str:
        """The text with where to look, as it is mailed."""
        return plain(
            f"{without_key(self.text)}\n\nStudy:  {self.study}\nReport: {self.report}\nSince:  {self.at}\n"
        )

    def payload(self) -> dict[str, Any]:
        """Return the event as it is posted."""
        return {
            "id": self.id,
            "kind": self.kind,
            "study": self.study,
            "title": self.subject,
            "text": plain(without_key(self.text)),
            "at": self.at,
            "report": self.report,
            "figures": dict(self.figures),
        }

"""What the export of question sets takes in and gives back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ExportInput:
    """Question sets (`test`, `train` -> rows of `schemas.QUESTIONS`, resolved), and doc_id -> url, title and
    text.
    """

    name: str
    questions: Mapping[str, Sequence[Row]]
    documents: Mapping[str, Row]

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.questions.values() for row in rows]

    def file_name(self, use: str, suffix: str) -> str:
        return f"{self.name}{suffix}" if use == "test" else f"{self.name}-{use}{suffix}"

    def passages(self, question: Row) -> Iterator[tuple[str, str]]:
        """Yield (URL, text) of each piece of evidence: its span, else its quote, else its whole document."""
        for item in question["evidence"] or ():
            document = self.documents.get(item["doc_id"])
            if document is not None and item["start"] is not None:
                yield item["url"], document["text"][item["start"] : item["end"]]
            elif item["quote"]:
                yield item["url"], item["quote"]
            elif document is not None:
                yield item["url"], document["text"]


@dataclass
class QuestionExport:
    """Files of an export, before they are written: path -> lines with their ends, and what is in them -> how
    many.
    """

    files: dict[str, Iterable[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, rows: Iterable[Row], what: str) -> None:
        """Say of how many questions something is true, and name a few; nothing where there are none."""
        if ids := [row["question_id"] for row in rows]:
            named = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
            self.notes.append(f"{len(ids)} questions {what}: {named}")


def json_line(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085") + "\n"

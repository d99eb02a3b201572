"""A small index of dated documents with keywords, in two languages; some know no date, some no keyword."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_assay.evals.retrieval.index import OpenIndex
from tests.fakes.indexing import build_index

Row = dict[str, Any]


def row(text: str, published_at: str | None, keywords: list[str] | None, language: str | None = "de") -> Row:
    """Return the facts of one document of a single chunk."""
    return {"text": text, "published_at": published_at, "keywords": keywords, "language": language}


KB, WE = "SV Kohlenbach 07", "Eintracht Wesselrode"
ROWS: tuple[Row, ...] = (
    row("Kohlenbach schlägt Wesselrode.", "2021-08-28T18:42:00+02:00", [KB, WE, "Derby"]),
    row("Wesselrode gewinnt das Derby in Kohlenbach.", "2022-09-24T18:27:00+02:00", [KB, WE, "Derby"]),
    row("Jannik Terhorst verlängert am Förderturm.", "2022-11-30", [KB, "Jannik Terhorst"]),
    row("Lukas Terhorst wechselt.", "2024-01-16", ["Rot-Weiß Zechenau", "Lukas Terhorst"]),
    row("Müßiges über Flutlicht.", "2023-11-04", ["Sportfreunde Haldenrath", "Flutlicht"]),
    row("The target for 2030 is 55 %.", "2018-12-11", [], "en"),
    row("Regulation of 2022 on a target for 2030; repealed.", "2022-05-31", None, "en"),
    row("Undated note about the target.", None, None, None),
    row("Nur das Jahr ist bekannt.", "2022", ["Derby"]),
)


def index_of(folder: Path, rows: Sequence[Row] = ROWS) -> OpenIndex:
    """Write and open an index of these rows, whose chunk ids are c000, c001, …"""
    texts = [one["text"] for one in rows]
    columns = {
        "doc_id": [f"d{number:03}" for number in range(len(rows))],
        "title": [text[:20] for text in texts],
        "url": [f"https://x.example/{number}" for number in range(len(rows))],
        "tags": [[word for word in one["keywords"] or [] if word in one["text"]] for one in rows],
        **{name: [one[name] for one in rows] for name in ("published_at", "keywords", "language")},
    }
    return build_index(folder, texts, columns=columns)

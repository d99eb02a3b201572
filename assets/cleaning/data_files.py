"""Tables and JSON that hold no passages: the file is one document."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

from rag_assay.assets.cleaning.draft import CellLimit, DocumentDraft, UnusablePage, decode_text
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy
from rag_assay.warehouse.files import delimiter_of

MAX_CELLS = 2_000_000
MAX_SIGNS = 50_000_000  # of the paths before the values of a JSON file
_LONGEST = 1 << 20  # characters of a cell


def clean_table(body: bytes, content_type: str | None) -> DocumentDraft:
    """Convert a table to text: one line per row, cells separated by " | ", as for worksheets."""
    # Not stripped before it is split: the first cell may be empty.
    text = repair_encoding(decode_text(body, content_type)).strip(" \n")
    is_tabs = "tab-separated" in (content_type or "")
    delimiter = "\t" if is_tabs else delimiter_of(text.split("\n", 1)[0])
    lines: list[str] = []
    cells = CellLimit(MAX_CELLS, "cells")
    csv.field_size_limit(_LONGEST)
    try:
        for row in csv.reader(StringIO(text), delimiter=delimiter):
            cells.take(len(row))
            if any(cell.strip() for cell in row):
                lines.append(" | ".join(" ".join(cell.split()) for cell in row).rstrip(" |"))
    except csv.Error as error:
        raise UnusablePage(f"not a table: {error}") from error
    return DocumentDraft(text=tidy("\n".join(lines)), repaired=True, metadata={"rows": len(lines)})


def clean_json(body: bytes, content_type: str | None) -> DocumentDraft:
    """Convert JSON to text: one line per value, after its path (`limits.pages: 500`)."""
    text = tidy(repair_encoding(decode_text(body, content_type)))
    try:
        items = [json.loads(text)]
    except (ValueError, RecursionError):
        items = _lines(text)
    lines: list[str] = []
    values, signs = CellLimit(MAX_CELLS, "values"), CellLimit(MAX_SIGNS, "characters of paths")
    waiting: list[tuple[str, Any]] = [("", item) for item in reversed(items)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict | list):
            signs.take(len(path) * len(value))
            named = value.items() if isinstance(value, dict) else enumerate(value, 1)
            inner = [(f"{path}.{name}" if path else str(name), one) for name, one in named]
            waiting += reversed(inner)
        elif value is not None:
            shown = value if isinstance(value, str) else json.dumps(value)
            lines.append(f"{path}: {shown}" if path else shown)
            values.take(1)
    if not lines:
        raise UnusablePage("no text in the file")
    return DocumentDraft(text=tidy("\n".join(lines)), repaired=True, metadata={"values": len(lines)})


def _lines(text: str) -> list[Any]:
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise UnusablePage(f"not JSON: {error}") from error

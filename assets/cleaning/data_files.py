"""Tables and JSON that hold no passages: the file is one document."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage, decode_text
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy

MAX_CELLS = 2_000_000
MAX_SIGNS = 50_000_000  # of the paths before the values of a JSON file
_LONGEST = 1 << 20  # characters of a cell


def clean_table(body: bytes, content_type: str | None) -> DocumentDraft:
    """Take a table as text: a line a row, cells separated by " | ", as of a worksheet."""
    text = tidy(repair_encoding(decode_text(body, content_type)))
    first = text.split("\n", 1)[0]
    is_tabs = "tab-separated" in (content_type or "")
    delimiter = "\t" if is_tabs else max(",;\t|", key=first.count)
    lines: list[str] = []
    left = MAX_CELLS
    csv.field_size_limit(_LONGEST)
    try:
        for row in csv.reader(StringIO(text), delimiter=delimiter):
            left -= len(row)
            if left < 0:
                raise UnusablePage(f"more than {MAX_CELLS} cells")
            if any(cell.strip() for cell in row):
                lines.append(" | ".join(" ".join(cell.split()) for cell in row).rstrip(" |"))
    except csv.Error as error:
        raise UnusablePage(f"not a table: {error}") from error
    return DocumentDraft(text="\n".join(lines), repaired=True, metadata={"rows": len(lines)})


def clean_json(body: bytes, content_type: str | None) -> DocumentDraft:
    """Take JSON as text: a line a value, behind its path (`limits.pages: 500`)."""
    text = tidy(repair_encoding(decode_text(body, content_type)))
    try:
        values = [json.loads(text)]
    except (ValueError, RecursionError):
        values = _lines(text)
    lines: list[str] = []
    left = MAX_SIGNS
    waiting: list[tuple[str, Any]] = [("", value) for value in reversed(values)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict | list):
            left -= len(path) * len(value)
            if left < 0:
                raise UnusablePage(f"more than {MAX_SIGNS} characters of paths")
            named = value.items() if isinstance(value, dict) else enumerate(value, 1)
            inner = [(f"{path}.{name}" if path else str(name), one) for name, one in named]
            waiting += reversed(inner)
        elif value is not None:
            shown = value if isinstance(value, str) else json.dumps(value)
            lines.append(f"{path}: {shown}" if path else shown)
        if len(lines) > MAX_CELLS:
            raise UnusablePage(f"more than {MAX_CELLS} values")
    if not lines:
        raise UnusablePage("no text in the file")
    return DocumentDraft(text=tidy("\n".join(lines)), repaired=True, metadata={"values": len(lines)})


def _lines(text: str) -> list[Any]:
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise UnusablePage(f"not JSON: {error}") from error

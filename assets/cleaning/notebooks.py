"""Jupyter notebooks: Markdown cells as they are, code cells fenced, text outputs below them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage, decode_text
from rag_assay.assets.cleaning.outline import sections_in
from rag_assay.assets.cleaning.text_files import headings_in
from rag_assay.assets.cleaning.unicode import repair_encoding, tidy

_OUTPUT = 4000  # characters of one output; longer ones are data, and are cut
_TITLE = 300
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def clean_notebook(body: bytes, content_type: str | None) -> DocumentDraft:
    """Convert the cells of a notebook (nbformat 3 to 5) to text, in order; headings of Markdown cells begin
    sections. Pictures and HTML of outputs are left out; `metadata` holds the number of `cells`.
    """
    try:
        book = json.loads(decode_text(body, content_type))
    except (ValueError, RecursionError) as error:
        raise UnusablePage(f"not a notebook: no JSON ({type(error).__name__})") from error
    cells = _cells(book)
    if cells is None:
        raise UnusablePage("not a notebook: it has no list of cells")
    language = _language(book)
    text = tidy(repair_encoding("\n\n".join(part for cell in cells for part in _parts(cell, language))))
    if not text:
        raise UnusablePage("no text in the notebook")
    headings = list(headings_in(text))
    named = next((heading.text for heading in headings), text.split("\n", 1)[0].strip("` "))
    return DocumentDraft(
        text=text,
        title=named[:_TITLE] or None,
        sections=sections_in(text, headings),
        metadata={"cells": len(cells), "code": language},
        repaired=True,
    )


def _cells(book: Any) -> list[dict[str, Any]] | None:
    if not isinstance(book, dict):
        return None
    cells = book.get("cells")
    if cells is None and isinstance(book.get("worksheets"), list):  # nbformat 3
        sheets = [sheet for sheet in book["worksheets"] if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets for cell in sheet.get("cells") or ()]
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else None


def _language(book: dict[str, Any]) -> str:
    metadata = book.get("metadata")
    for place, key in (("language_info", "name"), ("kernelspec", "language")):
        known = metadata.get(place) if isinstance(metadata, dict) else None
        name = known.get(key) if isinstance(known, dict) else None
        if isinstance(name, str) and name.isalnum():
            return name.lower()
    return "python"


def _parts(cell: dict[str, Any], language: str) -> Iterator[str]:
    kind, source = cell.get("cell_type"), _joined(cell.get("source", cell.get("input"))).strip("\n")
    if not source.strip():
        return
    if kind == "heading":
        level = cell.get("level")
        yield f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {source}"
    elif kind == "code":
        yield _fenced(source, language)
        for output in cell.get("outputs") or ():
            if isinstance(output, dict) and (text := _output(output)):
                yield _fenced(text)
    else:
        yield source


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data")
    found = output.get("text") or (data.get("text/plain") if isinstance(data, dict) else None)
    if output.get("output_type") in {"error", "pyerr"}:
        found = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    text = _ANSI.sub("", _joined(found)).strip("\n")
    return text if len(text) <= _OUTPUT else f"{text[:_OUTPUT]}\n…"


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""

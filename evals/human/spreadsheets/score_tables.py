"""The scores of a study that stand, as a table for other programs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from datetime import UTC
from pathlib import Path

from rag_assay.evals.human.queue import Queue
from rag_assay.evals.human.spreadsheets.formula_escaping import BOOK, CSV, CellEncoding, pieces, quoted_csv
from rag_assay.evals.human.spreadsheets.table import number
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.human_scores import Row, current_scores
from rag_assay.warehouse.identity import Json

SUFFIXES = (".xlsx", ".csv", ".json")
COLUMNS = {
    **{"annotator": 18, "item_id": 12, "question_id": 12, "question": 40, "answer": 60, "rubric": 12},
    **{"criterion": 12, "value": 8, "status": 10, "comment": 40, "showing": 8, "seconds": 9},
    **{"scored_at": 26, "rubric_version": 14, "cell": 40, "place": 24},
}
"""Columns of the table, and how wide they are in a workbook."""
_MOST_ROWS = 1_000_000
_CUT = " … (cut)"


def export_scores(path: Path, rows: Iterable[Row], queue: Queue | None) -> int:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: scores are exported as {', '.join(SUFFIXES)}")
    found = [_named(row, queue) for row in current_scores(rows)]
    if suffix != ".json" and len(found) > _MOST_ROWS:
        raise InputError(
            f"{path}: {len(found):,} scores, more than a sheet has rows; let its name end in .json"
        )
    write = {".xlsx": _book, ".csv": _csv, ".json": _json}[suffix]
    with atomic_write(path) as new:
        new.write_bytes(write(found))
    return len(found)


def _named(row: Row, queue: Queue | None) -> dict[str, Json]:
    queued = queue.by_id.get(row["item_id"]) if queue else None
    case = queued.item.case if queued else None
    texts = {
        "question": case.question if case else None,
        "answer": case.answer if case else None,
        "question_id": row["question_id"] or (case.question_id if case else None),
        "scored_at": row["scored_at"].astimezone(UTC).isoformat(),
    }
    return {name: texts.get(name, row.get(name)) for name in COLUMNS}


def _json(rows: list[dict[str, Json]]) -> bytes:
    return json.dumps(rows, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def _csv(rows: list[dict[str, Json]]) -> bytes:
    cells = ([_text(value, CSV) for value in row.values()] for row in rows)
    return quoted_csv([list(COLUMNS), *cells]).encode("utf-8-sig", "replace")


def _book(rows: list[dict[str, Json]]) -> bytes:
    require("openpyxl", "an XLSX file")
    from openpyxl import Workbook
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils import get_column_letter

    book = Workbook()
    sheet = book.active
    sheet.title = "scores"
    for place, (name, width) in enumerate(COLUMNS.items(), 1):
        sheet.cell(1, place, name).font = Font(bold=True)
        sheet.column_dimensions[get_column_letter(place)].width = width
    for line, row in enumerate(rows, 2):
        for place, value in enumerate(row.values(), 1):
            cell = sheet.cell(line, place)
            cell.value = value if isinstance(value, int | float | None) else _text(value, BOOK)
            cell.alignment = Alignment(vertical="top", wrap_text=True)
            if isinstance(value, str):
                cell.data_type = "s"
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = sheet.dimensions
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _text(value: Json, form: CellEncoding) -> str:
    if value is None:
        return ""
    if isinstance(value, int | float):
        return number(value)
    text = str(value)
    parts = pieces(text, form.written)
    if len(parts) == 1:
        return parts[0]
    return pieces(text[: len(form.read(parts[0])) - len(_CUT)], form.written)[0] + _CUT

"""Writes a queue as a file for one annotator, or as tasks that many work on together."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rag_assay.evals.human.queue import Queue
from rag_assay.evals.human.spreadsheets import table as sheets
from rag_assay.evals.human.spreadsheets.formula_escaping import BOOK, CSV, CellEncoding, pieces, quoted_csv
from rag_assay.evals.human.spreadsheets.label_studio import config_xml, tasks_json
from rag_assay.evals.human.spreadsheets.table import number
from rag_assay.warehouse.atomic_write import write_file
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.human_scores import Row, current_scores
from rag_assay.warehouse.identity import Json


def csv_text(table: sheets.QueueTable) -> str:
    rows = [[table.heading.line()]]
    for column, criterion in table.legend:
        anchors = "; ".join(f"{sheets.number(value)} = {words}" for value, words in criterion.anchors.items())
        said = f"# {column.name}: {criterion.ask} {anchors}; {sheets.SKIP} = you cannot say"
        rows.append([re.sub(r"\s+", " ", said)])
    rows.append([column.name for column in table.columns])
    written = [[CSV.written(cell) for cell in row] for row in rows]
    return quoted_csv([*written, *([sheets.cell_text(cell) for cell in row] for row in table.rows)])


SUFFIXES = (".xlsx", ".csv", ".json")
MOST_ROWS = 1_000_000  # a worksheet of Excel has 1,048,576


@dataclass(frozen=True)
class QueueExport:
    """Items, how many are shown again, and rows that are rated already."""

    items: int
    repeats: int
    scored: int


def check_form(path: Path, annotator: str | None) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: a queue is exported as {', '.join(SUFFIXES)} (tasks for Label Studio)")
    if annotator is None and suffix != ".json":
        raise InputError(f"{path}: the annotator is missing; add --annotator NAME")
    return suffix


def export_queue(
    queue: Queue,
    path: Path,
    rows: Iterable[sheets.Row],
    now: datetime,
    *,
    annotator: str | None = None,
    among: Sequence[str] = (),
) -> QueueExport:
    suffix = check_form(path, annotator)
    shown = sheets.showings_of(queue, annotator, among)
    if len(shown) > MOST_ROWS:
        raise InputError(f"{path}: {len(shown):,} rows, more than a sheet has")
    past = sheets.Past(rows, annotator or "")
    heading = sheets.heading_of(queue, annotator, len(past.rows), now, among)
    if suffix == ".json":
        body = tasks_json(queue, shown, heading, past).encode()
    elif suffix == ".csv":
        body = csv_text(sheets.table_of(queue, shown, heading, past, CSV.written)).encode("utf-8-sig")
    else:
        require("openpyxl", "an XLSX file")
        from rag_assay.evals.human.spreadsheets.workbooks import workbook_bytes

        body = workbook_bytes(sheets.table_of(queue, shown, heading, past, BOOK.written))
    write_file(path, body)
    scored = sum(bool(past.now(one.key, queue.versions)) for one in shown)
    return QueueExport(sum(one.showing == 1 for one in shown), sum(one.showing == 2 for one in shown), scored)


def export_config(queue: Queue, path: Path, annotator: str | None = None, among: Sequence[str] = ()) -> None:
    write_file(path, config_xml(queue, sheets.showings_of(queue, annotator, among)))


COLUMNS = {
    **{"annotator": 18, "item_id": 12, "question_id": 12, "question": 40, "answer": 60, "rubric": 12},
    **{"criterion": 12, "value": 8, "status": 10, "comment": 40, "showing": 8, "seconds": 9},
    **{"scored_at": 26, "rubric_version": 14, "cell": 40, "place": 24},
}
"""Columns of the table, and how wide they are in a workbook."""
_CUT = " … (cut)"


def export_scores(path: Path, rows: Iterable[Row], queue: Queue | None) -> int:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: scores are exported as {', '.join(SUFFIXES)}")
    found = [_named(row, queue) for row in current_scores(rows)]
    if suffix != ".json" and len(found) > MOST_ROWS:
        raise InputError(
            f"{path}: {len(found):,} scores, more than a sheet has rows; let its name end in .json"
        )
    if suffix == ".json":
        body = json.dumps(found, ensure_ascii=False, indent=1).encode("utf-8", "replace")
    elif suffix == ".csv":
        cells = ([_text(value, CSV) for value in row.values()] for row in found)
        body = quoted_csv([list(COLUMNS), *cells]).encode("utf-8-sig", "replace")
    else:
        body = _book(found)
    write_file(path, body)
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

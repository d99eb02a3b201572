"""Writes a queue as a file for one annotator, or as tasks that many work on together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rag_assay.evals.human.queue import Queue
from rag_assay.evals.human.spreadsheets import table as sheets
from rag_assay.evals.human.spreadsheets.formula_escaping import BOOK, CSV, quoted_csv
from rag_assay.evals.human.spreadsheets.label_studio import config_xml, tasks_json
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require


def csv_text(table: sheets.QueueTable) -> str:
    rows = [[table.heading.line()]]
    for column, criterion in table.legend:
        anchors = "; ".join(f"{sheets.number(value)} = {words}" for value, words in criterion.anchors.items())
        said = f"# {column.name}: {criterion.ask} {anchors}; {sheets.SKIP} = you cannot say"
        rows.append([re.sub(r"\s+", " ", said)])
    rows.append([column.name for column in table.columns])
    written = [[CSV.written(cell) for cell in row] for row in rows]
    return quoted_csv([*written, *([_written(cell) for cell in row] for row in table.rows)])


def _written(cell: sheets.Cell) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else sheets.number(cell)


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
    with atomic_write(path) as new:
        new.write_bytes(body)
    scored = sum(bool(past.now(one.key, queue.versions)) for one in shown)
    return QueueExport(sum(one.showing == 1 for one in shown), sum(one.showing == 2 for one in shown), scored)


def export_config(queue: Queue, path: Path, annotator: str | None = None, among: Sequence[str] = ()) -> None:
    with atomic_write(path) as new:
        new.write_text(config_xml(queue, sheets.showings_of(queue, annotator, among)), encoding="utf-8")

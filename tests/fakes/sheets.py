"""Sheets of a queue, filled in as a person does, by whatever program."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from openpyxl import Workbook, load_workbook

from rag_assay.evals.human.queue import Queue, write_queue
from rag_assay.evals.human.spreadsheets.export import export_queue
from rag_assay.evals.human.spreadsheets.upload import Returned, bring_back, keep
from rag_assay.warehouse.human_scores import HumanScores
from rag_assay.warehouse.paths import Home

AT = datetime(2026, 5, 5, 10, tzinfo=UTC)
Fill = Callable[[dict[str, Any], int], None]
"""Changes a row, by the names of its columns; the rows are counted from 0."""


class Desk:
    """A home with a queue, whose sheets are exported, filled in and brought back."""

    def __init__(self, folder: Path, queue: Queue) -> None:
        self.folder, self.queue = folder, queue
        self.home = Home(folder / "home")
        self.scores = HumanScores(self.home)
        write_queue(self.home, queue)

    def rows(self) -> list[dict[str, Any]]:
        return list(self.scores.rows(self.queue.study))

    def export(self, name: str, annotator: str | None = "anna", **options: Any) -> Path:
        path = self.folder / name
        export_queue(self.queue, path, self.rows(), AT, annotator=annotator, **options)
        return path

    def bring(self, path: Path) -> Returned:
        """Bring a sheet back, and keep what it adds if nothing is wrong with it."""
        found = bring_back(path, self.home, AT)
        if not found.rejects:
            assert keep(found, self.home) == len(found.scores)
        return found

    def values(self) -> dict[tuple[Any, ...], Any]:
        """What stands: (annotator, item, showing, rubric, criterion) -> value, or `skipped`."""
        found: dict[tuple[Any, ...], Any] = {}
        for row in self.rows():
            key = row["annotator"], row["item_id"], row["showing"], row["rubric"], row["criterion"]
            found[key] = row["value"] if row["status"] == "ok" else row["status"]
        return {key: value for key, value in found.items() if value != "withdrawn"}


def read_grid(path: Path) -> list[list[Any]]:
    """The cells of a sheet as a spreadsheet has them, heading and all."""
    if path.suffix == ".csv":
        return [list(row) for row in csv.reader(io.StringIO(path.read_text("utf-8-sig"), newline=""))]
    sheet = load_workbook(path)["scores"]
    return [[cell.value for cell in row] for row in sheet.iter_rows()]


def write_grid(
    path: Path, grid: Sequence[Sequence[Any]], delimiter: str = ",", encoding: str = "utf-8"
) -> None:
    """Write cells as another program saves them: without our styles, locks and quotes."""
    if path.suffix == ".csv":
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=delimiter).writerows(grid)
        path.write_text(out.getvalue(), encoding=encoding, newline="")
        return
    book = Workbook()
    sheet = book.active
    sheet.title = "scores"
    for number, row in enumerate(grid, 1):
        for place, value in enumerate(row, 1):
            cell = sheet.cell(number, place)
            cell.value = value
            if isinstance(value, str) and not value.startswith("=FORMULA"):
                cell.data_type = "s"
    book.save(path)


def header_at(grid: Sequence[Sequence[Any]]) -> int:
    """In which row the columns are named, from 0."""
    return next(place for place, row in enumerate(grid) if "item" in row)


def fill(path: Path, change: Fill) -> None:
    """Change the rows of a sheet in place."""
    grid = read_grid(path)
    top = header_at(grid)
    names = grid[top]
    for number, row in enumerate(grid[top + 1 :]):
        named = dict(zip(names, row, strict=False))
        change(named, number)
        grid[top + 1 + number] = [named.get(name) for name in names]
    write_grid(path, grid)


def score_all(value: Any = 5, column: str = "score: points", **more: Any) -> Fill:
    """Fill a value into each row, or that of a list for the first rows."""

    def change(row: dict[str, Any], number: int) -> None:
        if not isinstance(value, list):
            row[column] = value
        elif number < len(value):
            row[column] = value[number]
        row.update({name: one for name, one in more.items() if number == 0})

    return change


def filled(row: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """A row with other values."""
    return {**row, **values}

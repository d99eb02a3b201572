"""A table as a CSV file: UTF-8 with a mark, every cell quoted, as spreadsheets take it."""

from __future__ import annotations

import csv
import io
import re

from rag_assay.evals.human.spreadsheets.formula_escaping import CSV
from rag_assay.evals.human.spreadsheets.table import SKIP, Cell, QueueTable, number


def csv_text(table: QueueTable) -> str:
    """Return a table as the text of a CSV file, with what its values mean in lines that begin with `#`."""
    out = io.StringIO(newline="")
    rows = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    rows.writerow([CSV.written(table.heading.line())])
    for column, criterion in table.legend:
        anchors = "; ".join(f"{number(value)} = {words}" for value, words in criterion.anchors.items())
        said = f"# {column.name}: {criterion.ask} {anchors}; {SKIP} = you cannot say"
        rows.writerow([CSV.written(re.sub(r"\s+", " ", said))])
    rows.writerow([CSV.written(column.name) for column in table.columns])
    rows.writerows([_written(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else number(cell)

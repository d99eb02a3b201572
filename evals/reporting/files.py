"""The files that a report is written to: the page, and the leaderboard's rows beside it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.effects import effect_rows
from rag_assay.evals.reporting.figures.planes import risk_rows
from rag_assay.evals.reporting.human_ratings.axes import PEOPLE_COLUMNS, people_rows
from rag_assay.evals.reporting.judge_cards import card_rows, estimate_json
from rag_assay.evals.reporting.page import FOLDER, render_report
from rag_assay.evals.reporting.search_omissions import left_out_rows
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import HUMAN_ESTIMATES, LEADERBOARD

_OF_BOARD = tuple(LEADERBOARD)
COLUMNS = _OF_BOARD[_OF_BOARD.index("subset") : _OF_BOARD.index("detectable")]
CARD_COLUMNS = ("judge", "measure", "slice", "reason")
"""Added to `COLUMNS` in rows of judge cards."""
ESTIMATE_COLUMNS = ("estimate_of", "judged_by", *HUMAN_ESTIMATES)
"""Added to `COLUMNS` in rows of human estimates."""


def json_rows(board: pl.DataFrame, others: Iterable[Mapping[str, Any]] = ()) -> str:
    """Return a leaderboard (`schemas.LEADERBOARD`) as a JSON list.

    others: rows that follow those of the leaderboard; they may have other columns, too
    """
    last = [{name: row.get(name) for name in dict.fromkeys((*COLUMNS, *_further(row)))} for row in others]
    return json.dumps([*board.select(COLUMNS).to_dicts(), *last], indent=1)


def _further(row: Mapping[str, Any]) -> tuple[str, ...]:
    if "recommended" in row or "left_out_by" in row:
        return tuple(row)
    if "estimate_of" in row:
        return ESTIMATE_COLUMNS
    if "rubric" in row:
        return PEOPLE_COLUMNS
    return CARD_COLUMNS if "judge" in row else ()


def write_html(data: ReportData, path: Path) -> Path:
    """Write the HTML report atomically after its folder, and remove folders of earlier reports."""
    page = render_report(data, path.stem)
    folder = path.with_name(page.folder) if page.folder else None
    for name, text in page.files.items():
        assert folder is not None  # noqa: S101 -- files have one
        place = folder / name
        if not place.is_file() or place.read_text(encoding="utf-8") != text:
            write_text(text, place)
    write_text(page.html, path)
    for old in folders_of(path):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return path


def folders_of(page: Path) -> list[Path]:
    named = re.compile(re.escape(page.stem + FOLDER) + r"[0-9a-f]{12}")
    return sorted(one for one in page.parent.iterdir() if named.fullmatch(one.name) and one.is_dir())


def write_report(data: ReportData, home: Home) -> list[Path]:
    """Write the report and its leaderboard as JSON to the workspace; return the paths."""
    page = write_html(data, home.report(data.study))
    rows = json_rows(data.leaderboard, other_rows(data))
    return [page, write_text(rows + "\n", home.report_rows(data.study))]


def other_rows(data: ReportData) -> list[dict[str, Any]]:
    others = (risk_rows, effect_rows, people_rows, card_rows, estimate_json, left_out_rows)
    return [*(row for rows_of in others for row in rows_of(data)), verdict_row(data)]


def verdict_row(data: ReportData) -> dict[str, Any]:
    verdict = data.verdict.row()
    taken = data.verdict.recommended
    return {
        **verdict,
        "by_metric": verdict["metric"],
        "metric": "verdict",
        "cell": taken.cell if taken else None,
        "value": taken.value if taken else None,
    }


def write_text(text: str, path: Path) -> Path:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path

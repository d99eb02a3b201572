"""Renders the HTML report: one file without scripts or outside resources."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rag_assay.evals.reporting import display, limits
from rag_assay.evals.reporting.answers import verdict_words
from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.effects import effect_rows
from rag_assay.evals.reporting.figures.planes import risk_rows
from rag_assay.evals.reporting.human_ratings import PEOPLE_COLUMNS, people_rows
from rag_assay.evals.reporting.judge_cards import card_rows, estimate_json
from rag_assay.evals.reporting.search_omissions import left_out_rows
from rag_assay.evals.reporting.sections import PageSection, TitledPage
from rag_assay.evals.reporting.view import view
from rag_assay.warehouse.atomic_write import write_file
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import HUMAN_ESTIMATES, LEADERBOARD

FOLDER = ".data-"  # between the name of a page and the digest of what its folder holds


@dataclass(frozen=True)
class ReportPage:
    """A page, and the files of the folder beside it (name -> text), if any."""

    html: str
    folder: str
    files: Mapping[str, str]


def render_html(data: ReportData) -> str:
    """Return the report as one HTML document; of a large one the page alone."""
    return render_report(data, data.study).html


def render_report(data: ReportData, stem: str) -> ReportPage:
    """Return the report with style and script inside; stem: name of its file without suffix.

    Data is escaped, or packed and made text by the script. The content security policy names the digests of
    style and script, so that nothing else can load, run or send anything; frames show its folder alone.
    """
    script = f"(() => {{\n{join_files('scripts')}\n}})();"
    found = view(data)
    packs = found.journeys.packs
    page = TitledPage(
        data.study, f"Study report · {data.created_at:%-d %B %Y, %H:%M UTC}", (), found.sections
    )
    foot = f"{data.study} · seed {data.seed} · {data.created_at:%Y-%m-%d %H:%M UTC}"
    title = f"{data.study} – study report"
    values = {"title": title, "foot": foot, "data": data, "view": found, "stem": stem}
    html = _render(page, script, frames=bool(packs.files), **values)
    return ReportPage(html, f"{stem}{FOLDER}{packs.folder}" if packs.files else "", packs.files)


def render_page(page: TitledPage) -> str:
    """Return a page without scripts or outside resources."""
    return _render(page, "", title=page.title, foot=page.title, view=None, stem="")


def render_sections(sections: Sequence[PageSection]) -> str:
    """Return sections as HTML without a page around them; all texts are escaped."""
    return display.plain(templates().get_template("sections.html").render(sections=sections))


def _render(page: TitledPage, script: str, *, frames: bool = False, **values: Any) -> str:
    style = join_files("styles")
    values |= {"page": page, "policy": policy(style, script, frames=frames)}
    values |= {"style": Markup(style), "script": Markup(script)}  # noqa: S704 -- our own files
    return display.plain(templates().get_template("page.html").render(values))


@cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("rag_assay.evals.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("number", "quantity", "interval", "percent", "count", "several", "breakable", "safe_link")
    environment.globals |= {name: getattr(display, name) for name in names}
    environment.globals |= {"trimmed": display.truncate, "journey_link": display.link_of}
    environment.globals |= {"verdict_words": verdict_words, "limits": limits}
    environment.globals["render"] = lambda name, values: Markup(  # noqa: S704
        environment.get_template(name).render(values)
    )
    return environment


@cache
def join_files(folder: str) -> str:
    """Return the files of a folder of the templates, joined by name."""
    found = sorted(
        (files("rag_assay.evals.reporting") / "templates" / folder).iterdir(), key=lambda file: file.name
    )
    return "\n".join(file.read_text(encoding="utf-8") for file in found)


def read_script(name: str) -> str:
    path = files("rag_assay.evals.reporting") / "templates" / "scripts" / name
    return path.read_text(encoding="utf-8")


def policy(style: str, script: str, *, frames: bool = False) -> str:
    """Allow this style and this script alone; frames: also pages of the folder beside it."""
    more = "frame-src 'self' file:; " if frames else ""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        f"{more}img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_OF_BOARD = tuple(LEADERBOARD)
COLUMNS = _OF_BOARD[_OF_BOARD.index("subset") : _OF_BOARD.index("detectable")]
CARD_COLUMNS = ("judge", "measure", "slice", "reason")  # added to `COLUMNS` in rows of judge cards
ESTIMATE_COLUMNS = ("estimate_of", "judged_by", *HUMAN_ESTIMATES)
"""Added to `COLUMNS` in rows of human estimates."""


def json_rows(board: pl.DataFrame, others: Iterable[Mapping[str, Any]] = ()) -> str:
    """Return a leaderboard (`schemas.LEADERBOARD`) as a JSON list; others: rows that follow, with more
    columns.
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
            write_file(place, text)
    write_file(path, page.html)
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
    return [page, write_file(home.report_rows(data.study), rows + "\n")]


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
